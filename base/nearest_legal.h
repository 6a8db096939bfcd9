// "nearest legal: 4, 8": the remedy of a number that does not divide.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace pipeledger {

/// The largest legal value below `value` and the smallest above it, within [1, limit], as
/// "4, 8"; "none" when there is neither. Looks at most 65,536 values away. They are told in units
/// of which each is `unit`.
std::string nearest_legal(std::int64_t value, std::int64_t limit,
                          const std::function<bool(std::int64_t)>& is_legal, std::int64_t unit = 1);

/// Multiples of `step` on either side of `value`.
std::string nearest_multiples(std::int64_t value, std::int64_t step);

/// Divisors of `total` on either side of `value`.
std::string nearest_divisors(std::int64_t total, std::int64_t value);

}  // namespace pipeledger
