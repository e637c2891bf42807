// A strict reader of small XML files, for tests: elements, attributes, text. What is not well formed gives no tree.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace npuc::report {

struct Xml {
  std::string name, text;
  std::map<std::string, std::string> attributes;
  std::vector<Xml> children;

  // Null where the text is not one well-formed element (an XML declaration may stand before it).
  static std::unique_ptr<Xml> Parse(std::string_view s) {
    Reader r{s};
    if (r.Eat("<?xml ")) {
      const size_t end = r.s.find("?>");
      if (end == std::string_view::npos)
        return nullptr;
      r.s.remove_prefix(end + 2);
    }
    r.Blanks();
    auto root = std::make_unique<Xml>();
    if (!r.Element(*root))
      return nullptr;
    r.Blanks();
    return r.s.empty() ? std::move(root) : nullptr;
  }

private:
  struct Reader {
    std::string_view s;
    bool Eat(std::string_view what) {
      if (!s.starts_with(what))
        return false;
      s.remove_prefix(what.size());
      return true;
    }
    void Blanks() { s.remove_prefix(std::min(s.size(), s.find_first_not_of(" \t\r\n"))); }
    bool Name(std::string &out) {
      const size_t n =
          std::min(s.size(), s.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:"));
      out = s.substr(0, n);
      s.remove_prefix(n);
      return n > 0;
    }
    // Characters up to one of `stops`.
    bool Text(std::string_view stops, std::string &out) {
      while (!s.empty() && stops.find(s[0]) == std::string_view::npos) {
        const unsigned char c = static_cast<unsigned char>(s[0]);
        if (c == '<' || (c < 32 && c != '\n' && c != '\t' && c != '\r'))
          return false;
        if (c == '&') {
          bool known = false;
          for (const auto &[entity, value] : {std::pair("&lt;", '<'), {"&gt;", '>'}, {"&amp;", '&'}, {"&quot;", '"'}})
            if (!known && Eat(entity)) {
              out += value;
              known = true;
            }
          if (!known)
            return false;
          continue;
        }
        out += s[0];
        s.remove_prefix(1);
      }
      return true;
    }
    bool Element(Xml &e) {
      if (!Eat("<") || !Name(e.name))
        return false;
      for (;;) {
        const size_t before = s.size();
        Blanks();
        if (Eat("/>"))
          return true;
        if (Eat(">"))
          break;
        std::string key, value;
        if (s.size() == before || !Name(key) || !Eat("=\"") || !Text("\"", value) || !Eat("\"") ||
            !e.attributes.emplace(key, value).second)
          return false;
      }
      for (;;) {
        if (!Text("<", e.text))
          return false;
        if (Eat("</")) {
          std::string end;
          return Name(end) && end == e.name && Eat(">");
        }
        e.children.emplace_back();
        if (!Element(e.children.back()))
          return false;
      }
    }
  };
};

} // namespace npuc::report
