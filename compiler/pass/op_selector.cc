#include "compiler/pass/op_selector.h"

#include <algorithm>
#include <charconv>

#include "compiler/support/diagnostic.h"
#include "llvm/ADT/StringRef.h"

namespace npuc {
namespace {

using Relation = OpSelector::Relation;

std::string_view Trim(std::string_view s) {
  return llvm::StringRef(s).trim();
}

// "1.5MiB" -> bytes; plain numbers as they are.
std::optional<double> ParseNumber(std::string_view s) {
  double v;
  const auto r = std::from_chars(s.data(), s.data() + s.size(), v);
  if (r.ec != std::errc())
    return std::nullopt;
  const std::string_view unit = Trim(s.substr(r.ptr - s.data()));
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"", 1},        {"B", 1},    {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0},
      {"KB", 1000.0}, {"MB", 1e6}, {"GB", 1e9}};
  for (auto [name, factor] : kUnits)
    if (unit == name)
      return v * factor;
  return std::nullopt;
}

bool Holds(Relation r, double a, double b) {
  switch (r) {
  case Relation::Equal:
    return a == b;
  case Relation::Unequal:
    return a != b;
  case Relation::Less:
    return a < b;
  case Relation::LessEqual:
    return a <= b;
  case Relation::Greater:
    return a > b;
  case Relation::GreaterEqual:
    return a >= b;
  }
  return false;
}

bool HoldsText(Relation r, std::string_view a, std::string_view b) {
  return r == Relation::Equal ? a == b : r == Relation::Unequal ? a != b : false;
}

int64_t GreatestBytes(const Node &n) {
  int64_t bytes = 0;
  auto add = [&](const Value *v) {
    if (v && v->type().is_static_tensor())
      bytes = std::max(bytes, v->type().num_bytes());
  };
  for (const Value *v : n.operands())
    add(v);
  for (unsigned i = 0; i < n.num_results(); ++i)
    add(n.result(i));
  return bytes;
}

bool HoldsAt(const OpSelector::Condition &c, const Node &n) {
  const std::optional<double> number = ParseNumber(c.value);
  if (const Attribute *a = n.attrs().Find(c.key)) {
    if (const auto *i = std::get_if<int64_t>(a))
      return number && Holds(c.relation, static_cast<double>(*i), *number);
    if (const auto *f = std::get_if<float>(a))
      return number && Holds(c.relation, *f, static_cast<float>(*number));
    if (const auto *s = std::get_if<std::string>(a))
      return HoldsText(c.relation, *s, c.value);
    if (const auto *v = std::get_if<std::vector<int64_t>>(a)) {
      std::string text = ToString(*v); // "[1,1]"; spaces in the condition don't matter
      std::string wanted;
      for (char ch : c.value)
        if (ch != ' ')
          wanted += ch;
      return HoldsText(c.relation, text, wanted);
    }
    return false;
  }
  if (c.key == "bytes")
    return number && Holds(c.relation, static_cast<double>(GreatestBytes(n)), *number);
  const Value *first = n.operand(0);
  if (c.key == "dtype") {
    if (!first || !first->type().is_tensor())
      return c.relation == Relation::Unequal;
    const DType t = first->type().dtype();
    const bool same = c.value == Name(t) || c.value == OnnxName(t);
    return c.relation == Relation::Equal ? same : c.relation == Relation::Unequal && !same;
  }
  if (c.key == "rank") {
    if (!first || !first->type().is_tensor() || !first->type().shape().ranked())
      return c.relation == Relation::Unequal;
    return number && Holds(c.relation, first->type().shape().rank(), *number);
  }
  return c.relation == Relation::Unequal;
}

// At the commas that are outside of brackets.
std::vector<std::string_view> SplitConditions(std::string_view s) {
  std::vector<std::string_view> out;
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i <= s.size(); ++i) {
    if (i < s.size() && s[i] == '[')
      ++depth;
    if (i < s.size() && s[i] == ']')
      --depth;
    if (i == s.size() || (s[i] == ',' && depth == 0)) {
      out.push_back(Trim(s.substr(start, i - start)));
      start = i + 1;
    }
  }
  return out;
}

} // namespace

bool OpSelector::Matches(const Node &n) const {
  return n.Is(op, domain) &&
         std::all_of(conditions.begin(), conditions.end(), [&](const Condition &c) { return HoldsAt(c, n); });
}

StatusOr<OpSelector> ParseOpSelector(std::string_view text) {
  auto bad = [&](std::string what) {
    return Error("E0501", fmt::format("operator entry '{}': {}", text, what),
                 "write an operator's name, with conditions in parentheses if need be: Resize(mode=cubic), "
                 "Transpose(bytes>1MiB)");
  };
  OpSelector s;
  s.text = Trim(text);
  std::string_view name = s.text, conditions;
  const size_t open = name.find('(');
  if (open != std::string_view::npos) {
    if (name.back() != ')')
      return bad("the parenthesis is not closed at the end");
    conditions = name.substr(open + 1, name.size() - open - 2);
    name = Trim(name.substr(0, open));
  }
  const size_t colons = name.rfind("::");
  if (colons != std::string_view::npos) {
    s.domain = name.substr(0, colons);
    name.remove_prefix(colons + 2);
  }
  if (s.domain == "ai.onnx")
    s.domain.clear();
  s.op = name;
  const OpDef *op = LookupOp(s.domain, s.op);
  if (!op)
    return bad("there is no such operator");
  if (open == std::string_view::npos)
    return s;

  for (std::string_view c : SplitConditions(conditions)) {
    const size_t at = c.find_first_of("=!<>");
    if (at == 0 || at == std::string_view::npos)
      return bad(fmt::format("'{}' is no condition (key=value, or != < <= > >=)", c));
    OpSelector::Condition cond;
    cond.key = Trim(c.substr(0, at));
    std::string_view rest = c.substr(at);
    constexpr std::pair<std::string_view, Relation> kRelations[] = {
        {"!=", Relation::Unequal}, {"<=", Relation::LessEqual}, {">=", Relation::GreaterEqual}, {"==", Relation::Equal},
        {"=", Relation::Equal},    {"<", Relation::Less},       {">", Relation::Greater}};
    const auto *r = std::find_if(std::begin(kRelations), std::end(kRelations),
                                 [&](const auto &k) { return rest.substr(0, k.first.size()) == k.first; });
    if (r == std::end(kRelations))
      return bad(fmt::format("'{}' is no condition (key=value, or != < <= > >=)", c));
    cond.relation = r->second;
    cond.value = Trim(rest.substr(r->first.size()));
    if (cond.value.empty())
      return bad(fmt::format("'{}' has no value", c));
    const bool ordered = cond.relation != Relation::Equal && cond.relation != Relation::Unequal;
    if ((ordered || cond.key == "bytes" || cond.key == "rank") && !ParseNumber(cond.value))
      return bad(fmt::format("'{}' is not a number (a unit such as KiB or MiB may follow it)", cond.value));
    const bool known =
        cond.key == "bytes" || cond.key == "dtype" || cond.key == "rank" ||
        std::any_of(op->attrs.begin(), op->attrs.end(), [&](const AttrSpec &a) { return a.name == cond.key; });
    if (!known)
      return bad(fmt::format("{} has no attribute '{}' (bytes, dtype and rank may be asked for too)", s.op, cond.key));
    s.conditions.push_back(std::move(cond));
  }
  return s;
}

} // namespace npuc
