#include "spec/alloc_conf.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <vector>

#include "base/text.h"

namespace pipeledger {
namespace {

constexpr std::string_view kIdle[] = {"backend",
                                      "garbage_collection_threshold",
                                      "graph_capture_record_stream_reuse",
                                      "per_process_memory_fraction",
                                      "pinned_num_register_threads",
                                      "pinned_reserve_segment_size_mb",
                                      "pinned_use_background_threads",
                                      "pinned_use_cuda_host_register",
                                      "release_lock_on_cudamalloc",
                                      "release_lock_on_hipmalloc"};

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// Parts between commas that stand in no brackets.
std::vector<std::string_view> options(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '[') ++depth;
    if (i < text.size() && text[i] == ']') --depth;
    if (i < text.size() && (text[i] != ',' || depth > 0)) continue;
    if (const auto part = trimmed(text.substr(begin, i - begin)); !part.empty())
      parts.push_back(part);
    begin = i + 1;
  }
  return parts;
}

std::optional<std::int64_t> whole(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::size_t interval(std::int64_t mib) {
  const int power = std::bit_width(static_cast<std::uint64_t>(mib)) - 1;
  return static_cast<std::size_t>(std::clamp(power, 0, 15));
}

class Reader {
 public:
  ReadAllocConf read(std::string_view text) {
    for (const std::string_view part : options(text)) {
      const std::size_t colon = part.find(':');
      if (colon == std::string_view::npos)
        return {.problem = fmt::format(
                    "\"{}\" is no option; write name:value, as expandable_segments:True", part)};
      option(trimmed(part.substr(0, colon)), trimmed(part.substr(colon + 1)));
      if (!made_.problem.empty()) return {.problem = std::move(made_.problem)};
    }
    return std::move(made_);
  }

 private:
  void option(std::string_view name, std::string_view value) {
    if (name == "expandable_segments") return expandable_segments(value);
    if (name == "roundup_power2_divisions") return divisions(value);
    if (name == "max_split_size_mb") {
      if (const auto mib = above_20(name, value)) made_.conf.max_split_size = *mib * 1_MiB;
    } else if (name == "max_non_split_rounding_mb") {
      if (const auto mib = above_20(name, value)) made_.conf.max_non_split_rounding = *mib * 1_MiB;
    } else if (name == "backend" && value != "native") {
      made_.problem = fmt::format("backend {} is not simulated; remove it, or write native", value);
    } else if (std::find(std::begin(kIdle), std::end(kIdle), name) == std::end(kIdle)) {
      unknown(name);
    }
  }

  void unknown(std::string_view name) {
    std::vector<std::string> known(std::begin(kIdle), std::end(kIdle));
    for (const char* word : {"expandable_segments", "max_split_size_mb",
                             "max_non_split_rounding_mb", "roundup_power2_divisions"})
      known.emplace_back(word);
    const std::string near = nearest(name, known);
    made_.problem =
        fmt::format("{}: unknown option{}", name,
                    near.empty() ? "; it has " + join(known) : "; did you mean " + near + "?");
  }

  void expandable_segments(std::string_view value) {
    if (value != "True" && value != "False") {
      made_.problem = fmt::format("expandable_segments: \"{}\" is neither True nor False", value);
    }
    made_.conf.expandable_segments = value == "True";
  }

  std::optional<std::int64_t> above_20(std::string_view name, std::string_view value) {
    const std::optional<std::int64_t> mib = whole(value);
    if (mib && *mib > 20 && *mib <= 1 << 24) return mib;
    made_.problem = fmt::format("{}: \"{}\" is no whole number of MiB above 20", name, value);
    return std::nullopt;
  }

  /// "4", of every size; or "[256:1,512:2,>:8]", up to so many MiB each.
  void divisions(std::string_view value) {
    auto& all = made_.conf.roundup_power2_divisions;
    if (!value.starts_with('[')) return division(value, 0, all.size());
    if (!value.ends_with(']')) return wrong_division(value);
    std::size_t begin = 0;
    for (const std::string_view part : options(value.substr(1, value.size() - 2))) {
      const std::size_t colon = part.find(':');
      if (colon == std::string_view::npos) return wrong_division(part);
      const std::string_view key = trimmed(part.substr(0, colon));
      const std::optional<std::int64_t> mib = whole(key);
      if (key != ">" &&
          (!mib || *mib < 1 || !std::has_single_bit(static_cast<std::uint64_t>(*mib))))
        return wrong_division(part);
      const std::size_t end = key == ">" ? all.size() : interval(*mib) + 1;
      division(trimmed(part.substr(colon + 1)), begin, end);
      begin = std::max(begin, end);
    }
  }

  void division(std::string_view text, std::size_t begin, std::size_t end) {
    const std::optional<std::int64_t> parts = whole(text);
    const bool is_power = parts && *parts >= 1 && *parts <= 64 &&
                          std::has_single_bit(static_cast<std::uint64_t>(*parts));
    if (!is_power) return wrong_division(text);
    for (std::size_t i = begin; i < end; ++i)
      made_.conf.roundup_power2_divisions[i] = static_cast<int>(*parts);
  }

  void wrong_division(std::string_view text) {
    made_.problem = fmt::format(
        "roundup_power2_divisions: \"{}\" is wrong; write a power of two up to 64, as 4, or by "
        "size "
        "in MiB, as [256:1,512:2,>:8]",
        text);
  }

  ReadAllocConf made_;
};

}  // namespace

ReadAllocConf read_alloc_conf(std::string_view text) { return Reader().read(text); }

}  // namespace pipeledger
