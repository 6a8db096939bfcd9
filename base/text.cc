#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace pipeledger {
namespace {

/// Letters to change, add or drop; `limit` where it is not less.
std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit) {
  const std::size_t longer = std::max(a.size(), b.size());
  if (longer - std::min(a.size(), b.size()) >= limit) return limit;
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substitution = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substitution, row[j] + 1, row[j + 1] + 1});
    }
    // A distance grows from row to row.
    if (*std::min_element(row.begin(), row.end()) >= limit) return limit;
  }
  return row.back();
}

}  // namespace

std::string to_gib(Bytes bytes) {
  return fmt::format("{:.2f} GiB", static_cast<double>(bytes.value()) / (1_GiB).value());
}

std::string with_commas(std::int64_t count) {
  std::string digits = std::to_string(count);
  const std::size_t first = digits[0] == '-' ? 1 : 0;
  for (std::size_t i = digits.size(); i > first + 3;) digits.insert(i -= 3, ",");
  return digits;
}

std::string to_text(Seconds time) {
  const double seconds = time.value();
  if (seconds >= 1.0) return fmt::format("{:.3f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.4g} ms", seconds * 1e3);
  return fmt::format("{:.4g} us", seconds * 1e6);
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate, best_distance);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string wrap(std::string_view words, std::size_t width, std::size_t indent) {
  std::string text;
  std::size_t column = 0;
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    const std::string_view word = words.substr(0, end);
    words.remove_prefix(std::min(end + 1, words.size()));
    if (word.empty()) continue;
    if (column > 0 && column + 1 + word.size() > width) {
      text += '\n';
      column = 0;
    }
    text += column == 0 ? std::string(indent, ' ') : " ";
    text += word;
    column = (column == 0 ? indent : column + 1) + word.size();
  }
  return column == 0 ? text : text + '\n';
}

std::string join(const std::vector<std::string>& words, std::string_view separator) {
  return fmt::format("{}", fmt::join(words, separator));
}

std::string in_quotes(std::string_view text) {
  std::string shown = "\"";
  for (const char c : text.substr(0, kLegibleLength))
    shown += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  // A cut in the middle of a UTF-8 character would leave half of it.
  if (text.size() > kLegibleLength) {
    while (shown.size() > 1 && (static_cast<unsigned char>(shown.back()) & 0x80) != 0)
      shown.pop_back();
    shown += "...";
  }
  return shown + "\"";
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string near = word.size() > kLegibleLength ? "" : nearest(word, candidates);
  return near.empty() ? "" : fmt::format("; did you mean {}?", near);
}

}  // namespace pipeledger
