#include "sweep/variation.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <set>

#include "base/override.h"

namespace pipeledger {
namespace {

[[noreturn]] void refuse(std::string_view text, std::string_view why) {
  throw InputError({{.field = "--vary",
                     .message = fmt::format("'{}' {}; write path=a,b,c or path=1..8, e.g. "
                                            "train.micro_batch_size=1,2,4",
                                            text, why)}});
}

std::optional<std::int64_t> whole(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// At commas outside brackets and quotes.
std::vector<std::string> split_values(std::string_view text) {
  std::vector<std::string> values(1);
  int depth = 0;
  char quote = '\0';
  for (const char c : text) {
    if (quote != '\0') {
      if (c == quote) quote = '\0';
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '[' || c == '(') {
      ++depth;
    } else if (c == ']' || c == ')') {
      --depth;
    } else if (c == ',' && depth == 0) {
      values.emplace_back();
      continue;
    }
    values.back() += c;
  }
  return values;
}

/// first..last, first..last+step, first..last*factor; nullopt: not a range.
std::optional<std::vector<std::string>> range(std::string_view whole_text, std::string_view text) {
  const std::size_t dots = text.find("..");
  if (dots == std::string_view::npos) return std::nullopt;
  const std::size_t sign = text.find_first_of("+*", dots + 2);
  const std::optional<std::int64_t> first = whole(text.substr(0, dots));
  const std::optional<std::int64_t> last =
      whole(text.substr(dots + 2, sign == std::string_view::npos ? sign : sign - dots - 2));
  if (!first || !last) return std::nullopt;
  const bool doubles = sign != std::string_view::npos && text[sign] == '*';
  const std::optional<std::int64_t> step =
      sign == std::string_view::npos ? 1 : whole(text.substr(sign + 1));
  if (!step || *step < (doubles ? 2 : 1) || *first > *last || (doubles && *first < 1))
    refuse(whole_text, "is not a range that grows");
  std::vector<std::string> values;
  for (std::int64_t value = *first; value <= *last;) {
    values.push_back(std::to_string(value));
    if (values.size() > kMaxPoints) refuse(whole_text, "has too many values");
    const bool is_last = doubles ? value > *last / *step : value > *last - *step;
    if (is_last) break;
    value = doubles ? value * *step : value + *step;
  }
  return values;
}

}  // namespace

Variation parse_variation(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) refuse(text, "has no path and values");
  const std::string_view values = text.substr(equals + 1);
  Variation variation{.path = std::string(text.substr(0, equals))};
  std::set<std::string> seen;
  for (const std::string& part : split_values(values)) {
    if (part.empty()) refuse(text, "has an empty value");
    const auto numbers = range(text, part);
    for (const std::string& value : numbers ? *numbers : std::vector{part}) {
      if (!seen.insert(value).second) refuse(text, fmt::format("has {} twice", value));
      variation.values.push_back(value);
    }
  }
  return variation;
}

std::size_t num_points(const std::vector<Variation>& variations) {
  std::set<std::string> paths;
  std::size_t points = 1;
  for (const Variation& variation : variations) {
    if (!paths.insert(variation.path).second)
      throw InputError({{.field = "--vary",
                         .message = fmt::format("{} is varied twice; write all its values in one",
                                                variation.path)}});
    if (variation.values.size() > kMaxPoints / points)
      throw InputError(
          {{.field = "--vary",
            .message = fmt::format("makes more than {} points; vary less", kMaxPoints)}});
    points *= variation.values.size();
  }
  return points;
}

std::vector<Override> point_overrides(const std::vector<Variation>& variations, std::size_t index) {
  std::vector<Override> overrides(variations.size());
  for (std::size_t i = variations.size(); i-- > 0;) {
    const std::vector<std::string>& values = variations[i].values;
    overrides[i] = {variations[i].path, values[index % values.size()]};
    index /= values.size();
  }
  return overrides;
}

}  // namespace pipeledger
