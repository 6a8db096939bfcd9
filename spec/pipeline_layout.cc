#include "spec/pipeline_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <optional>
#include <utility>

#include "base/text.h"
#include "spec/fields.h"

namespace pipeledger {
namespace {

/// A longer layout is a slip of the keyboard.
constexpr std::size_t kMaxLetters = std::size_t{1} << 20;

/// The number after `*` at `at`, and where it ends; nullopt when there is none.
std::optional<std::pair<std::size_t, std::size_t>> repeat_at(std::string_view text,
                                                             std::size_t at) {
  if (at >= text.size() || text[at] != '*') return std::nullopt;
  std::size_t count = 0;
  const auto [end, error] = std::from_chars(text.data() + at + 1, text.data() + text.size(), count);
  if (error == std::errc::result_out_of_range) count = kMaxLetters + 1;
  if (error == std::errc::invalid_argument) return std::nullopt;
  return std::pair(count, static_cast<std::size_t>(end - text.data()));
}

/// False when the text would grow beyond kMaxLetters.
bool append(std::string& to, std::string_view part, std::size_t times) {
  if (!part.empty() && times > (kMaxLetters - std::min(to.size(), kMaxLetters)) / part.size())
    return false;
  for (std::size_t i = 0; i < times; ++i) to += part;
  return true;
}

/// (...)*n, once and from the left: what it yields is not looked at again.
std::optional<std::string> unroll_groups(std::string_view text) {
  std::string unrolled;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t close = text[at] == '(' ? text.find(')', at) : std::string_view::npos;
    const auto repeat = close == std::string_view::npos || close == at + 1
                            ? std::nullopt
                            : repeat_at(text, close + 1);
    if (!repeat) {
      unrolled += text[at++];
      continue;
    }
    if (!append(unrolled, text.substr(at + 1, close - at - 1), repeat->first)) return std::nullopt;
    at = repeat->second;
  }
  return unrolled;
}

/// x*n.
std::optional<std::string> unroll_letters(std::string_view text) {
  std::string unrolled;
  for (std::size_t at = 0; at < text.size();) {
    const auto repeat = repeat_at(text, at + 1);
    if (!append(unrolled, text.substr(at, 1), repeat ? repeat->first : 1)) return std::nullopt;
    at = repeat ? repeat->second : at + 1;
  }
  return unrolled;
}

/// "" when the stage has known letters only.
std::string wrong_letter(std::string_view stage) {
  const std::size_t at = stage.find_first_not_of("EtmL");
  if (at == std::string_view::npos) return "";
  return fmt::format(
      "{} in stage {} is not a part of the model; E is the embedding, t a layer, m "
      "an MTP layer, L the loss",
      in_quotes(stage.substr(at, 1)), in_quotes(stage));
}

PipelineLayout from_letters(std::string_view text) {
  std::string without_commas;
  std::copy_if(text.begin(), text.end(), std::back_inserter(without_commas),
               [](char c) { return c != ','; });
  const std::optional<std::string> groups = unroll_groups(without_commas);
  const std::optional<std::string> letters =
      groups ? unroll_letters(*groups) : std::optional<std::string>();
  if (!letters) return {.problem = fmt::format("has more than {} parts", kMaxLetters)};
  PipelineLayout layout;
  std::size_t begin = 0;
  for (std::size_t end = 0; end <= letters->size(); ++end) {
    if (end < letters->size() && (*letters)[end] != '|') continue;
    layout.stages.push_back(letters->substr(begin, end - begin));
    begin = end + 1;
  }
  for (const std::string& stage : layout.stages) {
    if (layout.problem.empty()) layout.problem = wrong_letter(stage);
  }
  return layout;
}

/// Reads [a, b] * n + [c] ..., where an item is a stage in letters or a list of names.
class ListReader {
 public:
  explicit ListReader(std::string_view text) : text_(text) {}

  PipelineLayout read() {
    do term();
    while (layout_.problem.empty() && skip('+'));
    blanks();
    if (at_ < text_.size()) wrong("unexpected");
    return std::move(layout_);
  }

 private:
  void blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool skip(char c) {
    blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void wrong(std::string_view what) {
    if (layout_.problem.empty())
      layout_.problem = fmt::format("{} at {}", what, in_quotes(text_.substr(at_)));
  }

  void term() {
    std::vector<std::string> stages;
    if (!skip('[')) return wrong("a list of stages, ['Et', ...], is missing");
    while (layout_.problem.empty() && !skip(']')) {
      stages.push_back(stage());
      if (skip(',')) continue;
      if (skip(']')) break;
      wrong("a comma or ] is missing");
    }
    blanks();
    std::size_t times = 1;
    if (skip('*')) {
      blanks();
      const auto [end, error] =
          std::from_chars(text_.data() + at_, text_.data() + text_.size(), times);
      if (error != std::errc() || times > kMaxLetters) return wrong("a small number is missing");
      at_ = static_cast<std::size_t>(end - text_.data());
    }
    if (stages.size() * times + layout_.stages.size() > kMaxLetters)
      return wrong("too many stages");
    for (std::size_t i = 0; i < times; ++i)
      layout_.stages.insert(layout_.stages.end(), stages.begin(), stages.end());
  }

  std::string stage() {
    if (!skip('[')) {
      std::string letters = word();
      const std::string problem = wrong_letter(letters);
      if (layout_.problem.empty()) layout_.problem = problem;
      return letters;
    }
    std::string letters;
    while (layout_.problem.empty() && !skip(']')) {
      letters += named(word());
      if (skip(',')) continue;
      if (skip(']')) break;
      wrong("a comma or ] is missing");
    }
    return letters;
  }

  /// Quoted, or bare up to the next comma or bracket; blanks around it dropped.
  std::string word() {
    blanks();
    const char quote =
        at_ < text_.size() && (text_[at_] == '\'' || text_[at_] == '"') ? text_[at_] : '\0';
    std::size_t begin = at_;
    std::size_t end = 0;
    if (quote != '\0') {
      end = text_.find(quote, ++begin);
      if (end == std::string_view::npos) {
        wrong("a closing quote is missing");
        end = text_.size();
      }
      at_ = std::min(end + 1, text_.size());
    } else {
      end = std::min(text_.find_first_of(",[]", begin), text_.size());
      at_ = end;
    }
    std::string_view found = text_.substr(begin, end - begin);
    while (found.starts_with(' ')) found.remove_prefix(1);
    while (found.ends_with(' ')) found.remove_suffix(1);
    return std::string(found);
  }

  std::string named(std::string name) {
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    constexpr std::array<std::pair<std::string_view, char>, 4> kNames = {
        {{"embedding", 'E'}, {"decoder", 't'}, {"mtp", 'm'}, {"loss", 'L'}}};
    for (const auto& [known, letter] : kNames) {
      if (name == known) return std::string(1, letter);
    }
    if (layout_.problem.empty())
      layout_.problem = fmt::format(
          "{} is not a part of the model; one of: embedding, decoder, mtp, loss", in_quotes(name));
    return "";
  }

  std::string_view text_;
  std::size_t at_ = 0;
  PipelineLayout layout_;
};

std::size_t count(const std::string& all, char letter) {
  return static_cast<std::size_t>(std::count(all.begin(), all.end(), letter));
}

std::string once(const std::string& all, char letter, std::string_view name) {
  const std::size_t times = count(all, letter);
  return times == 1 ? "" : fmt::format("has {} {} times, not once", name, times);
}

}  // namespace

PipelineLayout parse_pipeline_layout(std::string_view text) {
  return text.starts_with('[') ? ListReader(text).read() : from_letters(text);
}

std::string layout_problem(const PipelineLayout& layout, int num_ranks, int num_layers,
                           int mtp_num_layers) {
  if (!layout.problem.empty()) return layout.problem;
  if (num_ranks < 1 || layout.stages.size() % static_cast<std::size_t>(num_ranks) != 0)
    return fmt::format("has {} stages, which is not a multiple of pipeline_model_parallel_size {}",
                       layout.stages.size(), num_ranks);
  const std::string all =
      std::accumulate(layout.stages.begin(), layout.stages.end(), std::string());
  if (all.empty()) return "is empty; write E, t for each layer, L, and | between stages";
  if (all.front() != 'E') return "must begin with the embedding, E";
  if (all.back() != 'L') return "must end with the loss, L";
  if (std::string twice = once(all, 'E', "the embedding E"); !twice.empty()) return twice;
  if (std::string twice = once(all, 'L', "the loss L"); !twice.empty()) return twice;
  if (count(all, 't') != static_cast<std::size_t>(num_layers))
    return fmt::format("has {} layers t, not num_layers {}", count(all, 't'), num_layers);
  if (count(all, 'm') != static_cast<std::size_t>(mtp_num_layers))
    return fmt::format("has {} MTP layers m, not mtp_num_layers {}", count(all, 'm'),
                       mtp_num_layers);
  if (count(all, 'm') == 0) return "";
  const std::size_t last_layer = all.rfind('t');
  if (last_layer != std::string::npos && all.find('m') < last_layer)
    return "has layers t behind an MTP layer m; m comes last";
  const auto holder = std::find_if(layout.stages.begin(), layout.stages.end(),
                                   [](const std::string& stage) { return count(stage, 'm') > 0; });
  if (count(*holder, 'm') != count(all, 'm'))
    return "has MTP layers m on several stages; one stage must hold them all";
  const std::size_t first_of_last_turn = layout.stages.size() - static_cast<std::size_t>(num_ranks);
  if (static_cast<std::size_t>(holder - layout.stages.begin()) < first_of_last_turn)
    return "has MTP layers m before their rank's last chunk";
  return "";
}

std::vector<LayoutStage> layout_stages(const PipelineLayout& layout) {
  std::vector<LayoutStage> stages;
  for (const std::string& letters : layout.stages) {
    stages.push_back({.embedding = count(letters, 'E') > 0,
                      .num_layers = static_cast<int>(count(letters, 't')),
                      .num_mtp_layers = static_cast<int>(count(letters, 'm')),
                      .loss = count(letters, 'L') > 0});
  }
  return stages;
}

}  // namespace pipeledger
