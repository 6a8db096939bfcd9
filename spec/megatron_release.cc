#include "spec/megatron_release.h"

#include <charconv>

namespace pipeledger {
namespace {

/// The number at the head of `text`, taken off it.
std::optional<int> take_number(std::string_view& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || text.front() == '-') return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

/// The minor version of "0.17.1" or "0.17".
std::optional<int> minor_version(std::string_view text) {
  if (!text.starts_with("0.")) return std::nullopt;
  text.remove_prefix(2);
  const std::optional<int> minor = take_number(text);
  if (!minor || text.empty()) return minor;
  if (!text.starts_with('.')) return std::nullopt;
  text.remove_prefix(1);
  return take_number(text) && text.empty() ? minor : std::nullopt;
}

}  // namespace

std::optional<MegatronRelease> parse_megatron_release(std::string_view text) {
  if (text.starts_with("core_")) text.remove_prefix(5);
  if (text.starts_with('v')) text.remove_prefix(1);
  const int minor = minor_version(text).value_or(0);
  if (minor < 12 || minor > 19) return std::nullopt;
  if (minor < 15) return MegatronRelease::core_0_12;
  constexpr MegatronRelease kReleases[] = {MegatronRelease::core_0_15, MegatronRelease::core_0_16,
                                           MegatronRelease::core_0_17, MegatronRelease::core_0_18,
                                           MegatronRelease::core_0_19};
  return kReleases[minor - 15];
}

}  // namespace pipeledger
