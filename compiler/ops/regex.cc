// A small regular expression engine: recursive-descent parser to a Thompson NFA program, run breadth-first over the
// text (Pike).
//
// No backtracking: patterns come from model files, and a pattern must not be able to hang the compiler. Repetition
// counts are expanded, bounded by kMaxProgram. A class that can match non-ASCII characters decodes one UTF-8 sequence
// at a time.
#include "compiler/ops/regex.h"

#include "compiler/support/diagnostic.h"

namespace npuc::ops {
namespace {

constexpr size_t kMaxProgram = 20000;
constexpr int kMaxDepth = 200;
constexpr int kMaxRepeat = 1000;

bool IsWord(uint8_t c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

} // namespace

// Grammar: alternation := sequence ('|' sequence)*; sequence := (atom quantifier?)*
class RegexParser {
public:
  using Instruction = Regex::Instruction;
  using Code = std::vector<Instruction>;

  explicit RegexParser(std::string_view p) : p_(p) {}

  StatusOr<Code> Parse() {
    NPUC_ASSIGN_OR_RETURN(Code code, Alternation(0));
    if (at_ < p_.size())
      return Bad("an unmatched )");
    code.emplace_back(); // Match
    return code;
  }

private:
  Status Bad(std::string_view what) const {
    return Error("E0203", fmt::format("pattern '{}' at {}: {}", p_, at_, what));
  }
  bool More() const { return at_ < p_.size(); }

  static void Append(Code &to, const Code &code) {
    const int shift = static_cast<int>(to.size());
    for (Instruction i : code) {
      i.to += shift;
      i.other += shift;
      to.push_back(i);
    }
  }
  static Instruction Jump(int to) {
    Instruction i;
    i.kind = Instruction::Jump;
    i.to = to;
    return i;
  }
  static Instruction Split(int to, int other) {
    Instruction i = Jump(to);
    i.kind = Instruction::Split;
    i.other = other;
    return i;
  }

  StatusOr<Code> Alternation(int depth) {
    if (depth > kMaxDepth)
      return Bad("nested too deep");
    NPUC_ASSIGN_OR_RETURN(Code left, Sequence(depth));
    while (More() && p_[at_] == '|') {
      ++at_;
      NPUC_ASSIGN_OR_RETURN(Code right, Sequence(depth));
      Code both{Split(1, static_cast<int>(left.size()) + 2)};
      Append(both, left);
      both.push_back(Jump(static_cast<int>(both.size() + right.size()) + 1));
      Append(both, right);
      left = std::move(both);
      if (left.size() > kMaxProgram)
        return Bad("too large");
    }
    return left;
  }

  StatusOr<Code> Sequence(int depth) {
    Code code;
    while (More() && p_[at_] != '|' && p_[at_] != ')') {
      NPUC_ASSIGN_OR_RETURN(Code atom, Atom(depth));
      NPUC_ASSIGN_OR_RETURN(atom, Quantified(std::move(atom)));
      Append(code, atom);
      if (code.size() > kMaxProgram)
        return Bad("too large");
    }
    return code;
  }

  StatusOr<Code> Quantified(Code atom) {
    for (bool first = true; More(); first = false) {
      int least, most; // most -1: no limit
      const char c = p_[at_];
      if (c == '*') {
        least = 0, most = -1, ++at_;
      } else if (c == '+') {
        least = 1, most = -1, ++at_;
      } else if (c == '?') {
        least = 0, most = 1, ++at_;
      } else if (c == '{' && Count(least, most)) {
        if (least > kMaxRepeat || most > kMaxRepeat || (most >= 0 && most < least))
          return Bad("a bad repetition count");
      } else {
        return atom;
      }
      if (!first)
        return Bad("a repetition of a repetition");
      if (More() && p_[at_] == '?')
        ++at_; // lazy: the set of full matches is the same
      Code out;
      for (int i = 0; i < least; ++i) {
        Append(out, atom);
        if (out.size() > kMaxProgram)
          return Bad("too large");
      }
      const int size = static_cast<int>(atom.size());
      if (most < 0) {
        const int begin = static_cast<int>(out.size());
        out.push_back(Split(begin + 1, begin + size + 2));
        Append(out, atom);
        out.push_back(Jump(begin));
      } else {
        const int end = static_cast<int>(out.size()) + (most - least) * (size + 1);
        for (int i = least; i < most; ++i) {
          out.push_back(Split(static_cast<int>(out.size()) + 1, end));
          Append(out, atom);
          if (out.size() > kMaxProgram)
            return Bad("too large");
        }
      }
      atom = std::move(out);
    }
    return atom;
  }

  // {m}, {m,}, {m,n}; false (and nothing taken) when the text is no count: RE2 reads it literally.
  bool Count(int &least, int &most) {
    size_t i = at_ + 1;
    auto number = [&](int &v) {
      const size_t start = i;
      v = 0;
      while (i < p_.size() && p_[i] >= '0' && p_[i] <= '9')
        v = std::min(v * 10 + (p_[i++] - '0'), 1 << 20);
      return i > start;
    };
    if (!number(least))
      return false;
    most = least;
    if (i < p_.size() && p_[i] == ',') {
      ++i;
      if (!number(most))
        most = -1;
    }
    if (i >= p_.size() || p_[i] != '}')
      return false;
    at_ = i + 1;
    return true;
  }

  static Code One(Instruction::Kind kind) {
    Instruction i;
    i.kind = kind;
    return {i};
  }

  StatusOr<Code> Atom(int depth) {
    const char c = p_[at_++];
    switch (c) {
    case '.':
      return One(Instruction::Any);
    case '^':
      return One(Instruction::Begin);
    case '$':
      return One(Instruction::End);
    case '(': {
      if (p_.substr(at_, 2) == "?:") {
        at_ += 2;
      } else if (p_.substr(at_, 3) == "?P<" || p_.substr(at_, 2) == "?<") {
        const size_t close = p_.find('>', at_);
        if (close == std::string_view::npos)
          return Bad("a group's name without end");
        at_ = close + 1;
      } else if (More() && p_[at_] == '?') {
        return Bad("flags are not supported");
      }
      NPUC_ASSIGN_OR_RETURN(Code inner, Alternation(depth + 1));
      if (!More())
        return Bad("a group without end");
      ++at_;
      return inner;
    }
    case '[':
      return Class();
    case '*':
    case '+':
    case '?':
      return Bad("nothing to repeat");
    case '\\': {
      if (!More())
        return Bad("a trailing backslash");
      switch (p_[at_]) {
      case 'b':
        ++at_;
        return One(Instruction::Word);
      case 'B':
        ++at_;
        return One(Instruction::NotWord);
      case 'A':
        ++at_;
        return One(Instruction::Begin);
      case 'z':
        ++at_;
        return One(Instruction::End);
      default:
        break;
      }
      Instruction i;
      i.kind = Instruction::Bytes;
      NPUC_RETURN_IF_ERROR(Escape(i));
      return Code{i};
    }
    default: {
      Instruction i;
      i.kind = Instruction::Bytes;
      i.bytes[static_cast<uint8_t>(c)] = true;
      return Code{i};
    }
    }
  }

  // What follows a backslash, added to the set. at_ is on the character behind it.
  Status Escape(Instruction &set) {
    const char c = p_[at_++];
    auto add = [&](auto in, bool negated) {
      for (int b = 0; b < 128; ++b)
        if (in(static_cast<uint8_t>(b)) != negated)
          set.bytes[b] = true;
      if (negated)
        set.multi = true;
    };
    auto digit = [](uint8_t b) { return b >= '0' && b <= '9'; };
    auto space = [](uint8_t b) { return b == ' ' || b == '\t' || b == '\n' || b == '\r' || b == '\f'; };
    switch (c) {
    case 'd':
      add(digit, false);
      return OkStatus();
    case 'D':
      add(digit, true);
      return OkStatus();
    case 'w':
      add(IsWord, false);
      return OkStatus();
    case 'W':
      add(IsWord, true);
      return OkStatus();
    case 's':
      add(space, false);
      return OkStatus();
    case 'S':
      add(space, true);
      return OkStatus();
    default:
      break;
    }
    --at_;
    NPUC_ASSIGN_OR_RETURN(uint8_t b, EscapedByte());
    set.bytes[b] = true;
    return OkStatus();
  }

  StatusOr<uint8_t> EscapedByte() {
    const char c = p_[at_++];
    switch (c) {
    case 't':
      return uint8_t{'\t'};
    case 'n':
      return uint8_t{'\n'};
    case 'r':
      return uint8_t{'\r'};
    case 'f':
      return uint8_t{'\f'};
    case 'v':
      return uint8_t{'\v'};
    case 'a':
      return uint8_t{7};
    case 'x': {
      int v = 0;
      for (int k = 0; k < 2; ++k) {
        if (!More())
          return Bad("\\x takes two digits");
        const char h = p_[at_++];
        const int d = h >= '0' && h <= '9'   ? h - '0'
                      : h >= 'a' && h <= 'f' ? h - 'a' + 10
                      : h >= 'A' && h <= 'F' ? h - 'A' + 10
                                             : -1;
        if (d < 0)
          return Bad("\\x takes two digits");
        v = v * 16 + d;
      }
      return static_cast<uint8_t>(v);
    }
    default:
      break;
    }
    if (IsWord(static_cast<uint8_t>(c)) && c != '_')
      return Bad(fmt::format("\\{} is not supported", c));
    return static_cast<uint8_t>(c);
  }

  StatusOr<Code> Class() {
    Instruction set;
    set.kind = Instruction::Bytes;
    bool negated = false;
    if (More() && p_[at_] == '^') {
      negated = true;
      ++at_;
    }
    for (bool first = true;; first = false) {
      if (!More())
        return Bad("a class without end");
      char c = p_[at_];
      if (c == ']' && !first) {
        ++at_;
        break;
      }
      if (p_.substr(at_, 2) == "[:") {
        const size_t close = p_.find(":]", at_);
        if (close == std::string_view::npos)
          return Bad("a class without end");
        const std::string_view name = p_.substr(at_ + 2, close - at_ - 2);
        at_ = close + 2;
        for (int b = 0; b < 128; ++b) {
          const bool alpha = (b >= 'a' && b <= 'z') || (b >= 'A' && b <= 'Z'), digit = b >= '0' && b <= '9';
          if ((name == "alpha" && alpha) || (name == "digit" && digit) || (name == "alnum" && (alpha || digit)) ||
              (name == "word" && IsWord(static_cast<uint8_t>(b))) || (name == "lower" && b >= 'a' && b <= 'z') ||
              (name == "upper" && b >= 'A' && b <= 'Z') || (name == "space" && (b == ' ' || (b >= 9 && b <= 13))) ||
              (name == "punct" && b > 32 && b < 127 && !alpha && !digit) ||
              (name == "xdigit" && (digit || (b >= 'a' && b <= 'f') || (b >= 'A' && b <= 'F'))))
            set.bytes[b] = true;
        }
        continue;
      }
      uint8_t low = static_cast<uint8_t>(c);
      ++at_;
      if (c == '\\') {
        if (!More())
          return Bad("a trailing backslash");
        if (std::string_view("dDwWsS").find(p_[at_]) != std::string_view::npos) {
          NPUC_RETURN_IF_ERROR(Escape(set));
          continue;
        }
        NPUC_ASSIGN_OR_RETURN(low, EscapedByte());
      }
      uint8_t high = low;
      if (at_ + 1 < p_.size() && p_[at_] == '-' && p_[at_ + 1] != ']') {
        ++at_;
        c = p_[at_++];
        high = static_cast<uint8_t>(c);
        if (c == '\\') {
          if (!More())
            return Bad("a trailing backslash");
          NPUC_ASSIGN_OR_RETURN(high, EscapedByte());
        }
        if (high < low)
          return Bad("a range that runs backwards");
      }
      if (high >= 0x80)
        return Bad("non-ASCII characters in a class are not supported");
      for (int b = low; b <= high; ++b)
        set.bytes[b] = true;
    }
    if (negated) {
      for (int b = 0; b < 128; ++b)
        set.bytes[b] = !set.bytes[b];
      set.multi = !set.multi;
    }
    return Code{set};
  }

  std::string_view p_;
  size_t at_ = 0;
};

StatusOr<Regex> Regex::Compile(std::string_view pattern) {
  Regex r;
  NPUC_ASSIGN_OR_RETURN(r.program_, RegexParser(pattern).Parse());
  return r;
}

bool Regex::FullMatch(std::string_view text) const {
  // Threads by text position: a multi-byte character moves a thread several bytes on, so lists are kept for the next
  // four.
  std::vector<std::vector<int>> lists(5);
  std::vector<std::vector<bool>> seen(5, std::vector<bool>(program_.size(), false));
  std::vector<int> stack;
  bool matched = false;
  auto boundary = [&](size_t i) {
    const bool before = i > 0 && IsWord(static_cast<uint8_t>(text[i - 1])),
               after = i < text.size() && IsWord(static_cast<uint8_t>(text[i]));
    return before != after;
  };
  // Follows the empty moves of a thread that stands at position i.
  auto add = [&](int pc, size_t i) {
    auto &list = lists[i % 5];
    auto &mark = seen[i % 5];
    stack.push_back(pc);
    while (!stack.empty()) {
      const int at = stack.back();
      stack.pop_back();
      if (mark[at])
        continue;
      mark[at] = true;
      const Instruction &in = program_[at];
      switch (in.kind) {
      case Instruction::Jump:
        stack.push_back(in.to);
        break;
      case Instruction::Split:
        stack.push_back(in.other);
        stack.push_back(in.to);
        break;
      case Instruction::Begin:
        if (i == 0)
          stack.push_back(at + 1);
        break;
      case Instruction::End:
        if (i == text.size())
          stack.push_back(at + 1);
        break;
      case Instruction::Word:
        if (boundary(i))
          stack.push_back(at + 1);
        break;
      case Instruction::NotWord:
        if (!boundary(i))
          stack.push_back(at + 1);
        break;
      case Instruction::Match:
        matched |= i == text.size();
        break;
      default:
        list.push_back(at);
        break;
      }
    }
  };
  add(0, 0);
  for (size_t i = 0; i < text.size(); ++i) {
    const uint8_t c = static_cast<uint8_t>(text[i]);
    const size_t length = std::min<size_t>(c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4, text.size() - i);
    const std::vector<int> now = std::move(lists[i % 5]);
    lists[i % 5].clear();
    seen[i % 5].assign(program_.size(), false);
    for (int pc : now) {
      const Instruction &in = program_[pc];
      if (in.kind == Instruction::Any) {
        if (c != '\n')
          add(pc + 1, i + length);
      } else if (in.bytes[c]) {
        add(pc + 1, i + 1);
      } else if (in.multi && c >= 0x80) {
        add(pc + 1, i + length);
      }
    }
  }
  return matched;
}

} // namespace npuc::ops
