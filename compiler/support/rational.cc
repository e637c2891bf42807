#include "compiler/support/rational.h"

#include "compiler/support/status.h"

#include <numeric>

namespace npuc {

Rational::Rational(int64_t numerator, int64_t denominator) {
  NPUC_CHECK(denominator != 0, "{} / 0", numerator);
  if (denominator < 0) {
    numerator = -numerator;
    denominator = -denominator;
  }
  const int64_t g = std::gcd(numerator, denominator);
  num = numerator / g;
  den = denominator / g;
}

std::optional<Rational> Rational::Parse(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative)
    text.remove_prefix(1);
  int64_t value = 0, scale = 1;
  int digits = 0;
  bool point = false;
  for (const char c : text) {
    if (c == '.' && !point) {
      point = true;
      continue;
    }
    if (c < '0' || c > '9' || ++digits > 18)
      return std::nullopt;
    value = value * 10 + (c - '0');
    if (point)
      scale *= 10;
  }
  if (digits == 0 || scale > 1000000000 || text.ends_with('.') || text.starts_with('.'))
    return std::nullopt;
  return Rational(negative ? -value : value, scale);
}

std::string Rational::ToString() const {
  int64_t scale = 1;
  int decimals = 0;
  while (scale % den != 0 && decimals < 9) {
    scale *= 10;
    ++decimals;
  }
  if (scale % den != 0)
    return fmt::format("{}/{}", num, den);
  const __int128_t scaled = static_cast<__int128_t>(num < 0 ? -num : num) * (scale / den);
  std::string out = fmt::format("{}", static_cast<uint64_t>(scaled / scale));
  if (decimals)
    out += fmt::format(".{:0{}}", static_cast<uint64_t>(scaled % scale), decimals);
  return num < 0 ? "-" + out : out;
}

} // namespace npuc
