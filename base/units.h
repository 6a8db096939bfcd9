// Numbers with units. A quantity adds to its own kind only; the few products and quotients that
// make sense across kinds are listed below, so `activation + transfer` does not compile.
#pragma once

#include <compare>
#include <cstdint>

namespace pipeledger {

/// A number of one unit. Rep is int64 for what is counted (bytes), double for what is measured.
template <class Unit, class Rep>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep value) : value_(value) {}

  /// The bare number, for formatting and file formats.
  constexpr Rep value() const { return value_; }

  constexpr auto operator<=>(const Quantity&) const = default;

  constexpr Quantity& operator+=(Quantity other) {
    value_ += other.value_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value_ -= other.value_;
    return *this;
  }
  constexpr Quantity operator-() const { return Quantity(-value_); }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return a += b; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return a -= b; }
  friend constexpr Quantity operator*(Quantity a, Rep b) { return Quantity(a.value_ * b); }
  friend constexpr Quantity operator*(Rep a, Quantity b) { return b * a; }
  friend constexpr Quantity operator/(Quantity a, Rep b) { return Quantity(a.value_ / b); }
  /// A ratio of two quantities is a bare number.
  friend constexpr double operator/(Quantity a, Quantity b) {
    return static_cast<double>(a.value_) / static_cast<double>(b.value_);
  }

 private:
  Rep value_{};
};

using Bytes = Quantity<struct BytesUnit, std::int64_t>;
using Seconds = Quantity<struct SecondsUnit, double>;
using Flops = Quantity<struct FlopsUnit, double>;
using BytesPerSecond = Quantity<struct BytesPerSecondUnit, double>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondUnit, double>;

constexpr Seconds operator/(Bytes bytes, BytesPerSecond rate) {
  return Seconds(static_cast<double>(bytes.value()) / rate.value());
}
constexpr Seconds operator/(Flops flops, FlopsPerSecond rate) {
  return Seconds(flops.value() / rate.value());
}
constexpr FlopsPerSecond operator/(Flops flops, Seconds time) {
  return FlopsPerSecond(flops.value() / time.value());
}

inline namespace literals {
constexpr Bytes operator""_B(unsigned long long n) { return Bytes(static_cast<std::int64_t>(n)); }
constexpr Bytes operator""_KiB(unsigned long long n) { return 1024 * operator""_B(n); }
constexpr Bytes operator""_MiB(unsigned long long n) { return 1024 * operator""_KiB(n); }
constexpr Bytes operator""_GiB(unsigned long long n) { return 1024 * operator""_MiB(n); }
constexpr BytesPerSecond operator""_GBps(unsigned long long n) {
  return BytesPerSecond(1e9 * static_cast<double>(n));
}
constexpr BytesPerSecond operator""_GBps(long double n) {
  return BytesPerSecond(1e9 * static_cast<double>(n));
}
constexpr FlopsPerSecond operator""_TFLOPS(long double n) {
  return FlopsPerSecond(1e12 * static_cast<double>(n));
}
constexpr Seconds operator""_us(long double n) { return Seconds(1e-6 * static_cast<double>(n)); }
constexpr Seconds operator""_us(unsigned long long n) {
  return Seconds(1e-6 * static_cast<double>(n));
}
constexpr Seconds operator""_ms(unsigned long long n) {
  return Seconds(1e-3 * static_cast<double>(n));
}
}  // namespace literals

}  // namespace pipeledger
