// Exact decimals: rates and prices of the machine, where 12.8 must mean 12.8.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace npuc {

// num / den in lowest terms, den > 0.
struct Rational {
  int64_t num = 0;
  int64_t den = 1;

  constexpr Rational() = default;
  constexpr Rational(int64_t whole) : num(whole) {}
  // Lowest terms; den must not be 0.
  Rational(int64_t numerator, int64_t denominator);

  // "12.8", "-3", "0.125": digits with at most one point, at most 9 decimals and 18 digits. nullopt otherwise.
  static std::optional<Rational> Parse(std::string_view text);
  // The decimal it was parsed from, without needless zeros; "num/den" when it is no finite decimal.
  std::string ToString() const;

  constexpr double ToDouble() const { return static_cast<double>(num) / static_cast<double>(den); }
  constexpr explicit operator double() const { return ToDouble(); }

  friend constexpr bool operator==(const Rational &, const Rational &) = default;
  friend constexpr std::strong_ordering operator<=>(const Rational &a, const Rational &b) {
    const auto x = static_cast<__int128_t>(a.num) * b.den, y = static_cast<__int128_t>(b.num) * a.den;
    return x < y ? std::strong_ordering::less : x > y ? std::strong_ordering::greater : std::strong_ordering::equal;
  }
};

} // namespace npuc
