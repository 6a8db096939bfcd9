#include "base/nearest_legal.h"

#include <algorithm>
#include <vector>

#include "base/text.h"

namespace pipeledger {
namespace {

constexpr std::int64_t kReach = 65536;

std::string join_or_none(const std::vector<std::string>& words) {
  return words.empty() ? "none" : join(words);
}

}  // namespace

std::string nearest_legal(std::int64_t value, std::int64_t limit,
                          const std::function<bool(std::int64_t)>& is_legal, std::int64_t unit) {
  std::vector<std::string> found;
  for (std::int64_t v = std::min(value - 1, limit); v >= 1 && value - v <= kReach; --v) {
    if (!is_legal(v)) continue;
    found.push_back(std::to_string(v * unit));
    break;
  }
  for (std::int64_t v = value + 1; v <= limit && v - value <= kReach; ++v) {
    if (!is_legal(v)) continue;
    found.push_back(std::to_string(v * unit));
    break;
  }
  return join_or_none(found);
}

std::string nearest_multiples(std::int64_t value, std::int64_t step) {
  const std::int64_t below = value / step * step;
  std::vector<std::string> found;
  if (below > 0) found.push_back(std::to_string(below));
  found.push_back(std::to_string(below + step));
  return join(found);
}

std::string nearest_divisors(std::int64_t total, std::int64_t value) {
  return nearest_legal(value, total, [&](std::int64_t v) { return total % v == 0; });
}

}  // namespace pipeledger
