// Which fields of a scenario a sweep varies, and over which values.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/override.h"
#include "spec/scenario.h"

namespace pipeledger {

struct Variation {
  std::string path;  // parallel.tensor_model_parallel_size
  std::vector<std::string> values;

  bool operator==(const Variation&) const = default;
};

/// "path=a,b,c", or whole numbers "path=1..8", "path=8..64+8" (steps of 8), "path=1..64*2"
/// (1, 2, 4, ...). A value in brackets or quotes may hold commas.
/// Throws InputError that names the text and the remedy.
Variation parse_variation(std::string_view text);

/// More points are a slip of the keyboard.
inline constexpr std::size_t kMaxPoints = 1'000'000;

/// The product of the numbers of values; 1 without variations. Throws InputError beyond kMaxPoints,
/// and for a field that is varied twice.
std::size_t num_points(const std::vector<Variation>& variations);

/// What point `index` sets: the last variation turns fastest. Requires index < num_points.
std::vector<Override> point_overrides(const std::vector<Variation>& variations, std::size_t index);

}  // namespace pipeledger
