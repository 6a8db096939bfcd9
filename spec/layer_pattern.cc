#include "spec/layer_pattern.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string>

#include "base/text.h"
#include "spec/fields.h"

namespace pipeledger {
namespace {

constexpr std::size_t kMaxLayers = 1 << 16;

/// expression: term + term...; term: factor * n...; factor: [0, 1, ...] or (expression).
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::optional<std::vector<bool>> read() {
    std::optional<std::vector<bool>> all = expression(0);
    blanks();
    return at_ == text_.size() ? all : std::nullopt;
  }

 private:
  using List = std::optional<std::vector<bool>>;

  void blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  bool skip(char c) {
    blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::optional<std::size_t> number() {
    blanks();
    std::size_t value = 0;
    const auto [end, error] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) return std::nullopt;
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }

  List expression(int depth) {
    List all = term(depth);
    while (all && skip('+')) {
      const List more = term(depth);
      if (!more || all->size() + more->size() > kMaxLayers) return std::nullopt;
      all->insert(all->end(), more->begin(), more->end());
    }
    return all;
  }

  List term(int depth) {
    const List part = factor(depth);
    List all = part;
    while (all && skip('*')) {
      const std::optional<std::size_t> times = number();
      if (!times || (!all->empty() && *times > kMaxLayers / all->size())) return std::nullopt;
      const std::vector<bool> once = *all;
      all->clear();
      for (std::size_t i = 0; i < *times; ++i) all->insert(all->end(), once.begin(), once.end());
    }
    return all;
  }

  List factor(int depth) {
    constexpr int kMaxDepth = 16;
    if (skip('(')) {
      if (depth == kMaxDepth) return std::nullopt;
      List inner = expression(depth + 1);
      return skip(')') ? inner : std::nullopt;
    }
    if (!skip('[')) return std::nullopt;
    std::vector<bool> list;
    while (!skip(']')) {
      const std::optional<std::size_t> value = number();
      if (!value || *value > 1 || list.size() == kMaxLayers) return std::nullopt;
      list.push_back(*value == 1);
      if (skip(',')) continue;
      if (!skip(']')) return std::nullopt;
      break;
    }
    return list;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

/// nullopt: not a plain number.
std::optional<int> every(std::string_view text) {
  int n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return n;
}

}  // namespace

LayerPattern parse_layer_pattern(std::string_view text, int num_layers) {
  LayerPattern pattern;
  pattern.layers.assign(static_cast<std::size_t>(num_layers), true);
  if (const std::optional<int> n = every(text)) {
    if (*n < 1) {
      pattern.problem = fmt::format("{} is less than 1; 1 gives every layer experts", *n);
      return pattern;
    }
    for (int layer = 0; layer < num_layers; ++layer)
      pattern.layers[static_cast<std::size_t>(layer)] = layer % *n == 0;
    return pattern;
  }
  const std::optional<std::vector<bool>> list = Reader(text).read();
  if (!list) {
    pattern.problem = fmt::format(
        "{} is neither a number nor a list of 0s and 1s such as ([0]*3+[1]*58)", in_quotes(text));
  } else if (list->size() != static_cast<std::size_t>(num_layers)) {
    pattern.problem =
        fmt::format("has {} entries for num_layers {}; one each", list->size(), num_layers);
  } else {
    pattern.layers = *list;
  }
  return pattern;
}

LayerPattern parse_window_pattern(std::string_view text, int num_layers) {
  LayerPattern pattern;
  const bool is_number =
      !text.empty() && text.size() < 7 && text.find_first_not_of("0123456789") == text.npos;
  if (!text.empty() && !is_number) return parse_layer_pattern(text, num_layers);
  const int every = is_number ? std::stoi(std::string(text)) : 0;
  if (is_number && every == 0) pattern.problem = "0 leaves no layer whole; remove it";
  for (int layer = 1; layer <= num_layers; ++layer)
    pattern.layers.push_back(every == 0 || layer % every != 0);
  return pattern;
}

LayerPattern parse_linear_attention_pattern(std::string_view text, int num_layers) {
  return parse_window_pattern(text, num_layers);
}

LayerPattern parse_no_rope_pattern(std::string_view text, int num_layers) {
  const bool is_number = !text.empty() && text.find_first_not_of("0123456789") == text.npos;
  if (!is_number) return parse_layer_pattern(text, num_layers);
  LayerPattern pattern = parse_window_pattern(text, num_layers);
  pattern.layers.flip();
  const std::optional<int> n = every(text);
  if (pattern.problem.empty() && n && num_layers % *n != 0)
    pattern.problem = fmt::format("{} does not divide num_layers {}", *n, num_layers);
  return pattern;
}

}  // namespace pipeledger
