#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "schedules/figures.h"
#include "schedules/first_problems.h"
#include "schedules/schedule.h"
#include "schedules/shape.h"

namespace pipeledger {
namespace {

constexpr std::string_view kKinds = "FBIW";

std::string_view name(Placement placement) {
  return std::array<std::string_view, 3>{"loop", "v",
                                         "bidirectional"}[static_cast<std::size_t>(placement)];
}

void append(std::string& text, const Op& op) {
  fmt::format_to(std::back_inserter(text), "{}{}{}", op.stage.value, letter(op.kind),
                 op.microbatch.value);
  if (op.slice > 0) fmt::format_to(std::back_inserter(text), ".{}", op.slice);
}

std::string ops_text(const std::vector<Op>& ops, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < std::min(most, ops.size()); ++i) {
    if (i > 0) text += ops[i - 1].overlaps_next ? '&' : ' ';
    append(text, ops[i]);
  }
  return text;
}

/// A token as it can be shown: printable, and short.
std::string shown(std::string_view token) {
  constexpr std::size_t kMost = 32;
  std::string text;
  for (const char c : token.substr(0, kMost)) {
    if (c >= ' ' && c <= '~') {
      text += c;
    } else {
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return token.size() > kMost ? text + "..." : text;
}

/// Reads the digits at the front of `rest` and drops them; nullopt: none there. A number over
/// kMaxOps comes back as kMaxOps, whatever its length.
std::optional<int> take_number(std::string_view& rest) {
  std::size_t length = 0;
  std::int64_t number = 0;
  for (; length < rest.size() && rest[length] >= '0' && rest[length] <= '9'; ++length) {
    number = std::min(number * 10 + (rest[length] - '0'), kMaxOps);
  }
  if (length == 0) return std::nullopt;
  rest.remove_prefix(length);
  return static_cast<int>(number);
}

/// The op of a token, or what is wrong with the token.
std::optional<Op> parse_op(std::string_view token, std::string& message) {
  std::string_view rest = token;
  const std::optional<int> stage = take_number(rest);
  const std::size_t kind = rest.empty() ? std::string_view::npos : kKinds.find(rest.front());
  if (kind != std::string_view::npos) rest.remove_prefix(1);
  const std::optional<int> microbatch = take_number(rest);
  std::optional<int> slice = 0;
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    slice = take_number(rest);
  }
  if (!stage || kind == std::string_view::npos || !microbatch || !slice || !rest.empty()) {
    message = fmt::format("{} is not an op; write stage, F, B, I or W, and microbatch: 0F0",
                          shown(token));
    return std::nullopt;
  }
  if (std::max(*stage, *microbatch) >= kMaxOps) {
    message = fmt::format("{} is out of range; the largest {} is {}", shown(token),
                          *stage >= kMaxOps ? "stage" : "microbatch", kMaxOps - 1);
    return std::nullopt;
  }
  if (*slice >= kMaxSlices) {
    message =
        fmt::format("{} is out of range; the largest slice is {}", shown(token), kMaxSlices - 1);
    return std::nullopt;
  }
  return Op{{*stage}, static_cast<OpKind>(kind), {*microbatch}, *slice};
}

class Parser {
 public:
  explicit Parser(std::string_view file) : file_(file) {}

  void line(std::string_view text) {
    ++line_;
    text = text.substr(0, text.find('#'));
    constexpr std::string_view kBlanks = " \t\r\v\f";
    std::vector<Op> ops;
    bool any = false;
    for (std::size_t at = text.find_first_not_of(kBlanks); at != std::string_view::npos;) {
      const std::size_t end = std::min(text.find_first_of(kBlanks, at), text.size());
      any = true;
      token(text.substr(at, end - at), static_cast<int>(at) + 1, ops);
      at = text.find_first_not_of(kBlanks, end);
    }
    if (any) ranks_.push_back(std::move(ops));
  }

  std::vector<std::vector<Op>> ranks() && {
    if (num_ops_ > kMaxOps) {
      problems_.add({.message = fmt::format("{} ops are more than the {} a schedule may hold",
                                            num_ops_, kMaxOps),
                     .file = file_});
    }
    if (ranks_.empty())
      problems_.add({.message = "holds no op; write a line a rank: 0F0 0B0", .file = file_});
    if (!problems_.empty()) throw InputError(std::move(problems_).take(file_));
    return std::move(ranks_);
  }

 private:
  /// An op, or a pair of them: 0F7&7B3.
  void token(std::string_view text, int column, std::vector<Op>& ops) {
    const std::size_t both = text.find('&');
    op(text.substr(0, both), column, ops);
    if (both == std::string_view::npos) return;
    if (!ops.empty()) ops.back().overlaps_next = true;
    op(text.substr(both + 1), column + static_cast<int>(both) + 1, ops);
  }

  void op(std::string_view text, int column, std::vector<Op>& ops) {
    std::string message;
    const std::optional<Op> op = parse_op(text, message);
    if (!op) {
      problems_.add({{}, std::move(message), file_, line_, column});
    } else if (++num_ops_ <= kMaxOps) {
      ops.push_back(*op);
    }
  }

  std::string file_;
  int line_ = 0;
  std::int64_t num_ops_ = 0;
  FirstProblems problems_;
  std::vector<std::vector<Op>> ranks_;
};

bool every_op_is_on_its_rank(const Schedule& schedule) {
  for (Rank rank{0}; rank.value < schedule.num_ranks; ++rank.value) {
    for (const Op& op : schedule.ops[rank.index()]) {
      if (schedule.rank_of(op) != rank) return false;
    }
  }
  return true;
}

/// Which microbatches go up, by the ranks on which they are found.
std::vector<bool> directions(const Schedule& schedule) {
  std::vector<bool> goes_up(Microbatch{schedule.num_microbatches}.index());
  for (Rank rank{0}; rank.value < schedule.num_ranks; ++rank.value) {
    for (const Op& op : schedule.ops[rank.index()]) {
      if (op.stage.value != rank.value) goes_up[op.microbatch.index()] = true;
    }
  }
  return goes_up;
}

/// The first placement in which every op is on its rank; loop if there is none, for validate to
/// find the ops that are not.
void find_placement(Schedule& schedule) {
  if (every_op_is_on_its_rank(schedule)) return;
  const bool folds_back = schedule.num_chunks > 1;
  if (folds_back) {
    schedule.placement = Placement::v;
  } else {
    schedule.placement = Placement::bidirectional;
    schedule.num_chunks = 2;
    schedule.goes_up = directions(schedule);
  }
  if (every_op_is_on_its_rank(schedule)) return;
  schedule.placement = Placement::loop;
  if (!folds_back) schedule.num_chunks = 1;
  schedule.goes_up.clear();
}

bool splits_backward(const Schedule& schedule) {
  return std::ranges::any_of(schedule.ops, [](const std::vector<Op>& ops) {
    return std::ranges::any_of(ops, [](const Op& op) { return op.kind == OpKind::W; });
  });
}

}  // namespace

std::string to_text(const Op& op) {
  std::string text;
  append(text, op);
  return text;
}

std::string token_at(const std::vector<Op>& ops, std::size_t at) {
  std::string text = to_text(ops[at]);
  if (ops[at].overlaps_next && at + 1 < ops.size()) text += '&' + to_text(ops[at + 1]);
  return text;
}

std::string to_text(const Schedule& schedule) {
  std::string text;
  for (const std::vector<Op>& ops : schedule.ops) text += ops_text(ops, ops.size()) + '\n';
  return text;
}

Schedule parse_schedule(std::string_view text, std::string_view file) {
  Parser parser(file);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    parser.line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }

  Schedule schedule{.name = std::string(file)};
  schedule.ops = std::move(parser).ranks();
  schedule.num_ranks = static_cast<int>(schedule.ops.size());
  int last_stage = 0;
  for (const std::vector<Op>& ops : schedule.ops) {
    schedule.num_warmup.push_back(num_leading_forwards(ops));
    for (const Op& op : ops) {
      last_stage = std::max(last_stage, op.stage.value);
      schedule.num_microbatches = std::max(schedule.num_microbatches, op.microbatch.value + 1);
      schedule.num_slices = std::max(schedule.num_slices, op.slice + 1);
    }
  }
  schedule.num_chunks = last_stage / schedule.num_ranks + 1;
  find_placement(schedule);
  return schedule;
}

std::string to_table(const Schedule& schedule, int width) {
  constexpr std::string_view kCut = " ...";
  std::int64_t num_ops = 0;
  for (const std::vector<Op>& ops : schedule.ops) num_ops += std::ssize(ops);
  std::string text =
      fmt::format("{}: ranks {}, chunks a rank {}, microbatches {}, ops {}\n{}\n", schedule.name,
                  schedule.num_ranks, schedule.num_chunks, schedule.num_microbatches,
                  with_commas(num_ops), figures_text(schedule));
  const bool splits = splits_backward(schedule);
  text += fmt::format("rank  warmup  peak in flight  {}ops in order\n",
                      splits ? "until I  I to W  " : "");
  for (std::size_t rank = 0; rank < schedule.ops.size(); ++rank) {
    const std::vector<Op>& ops = schedule.ops[rank];
    const PeakCounts peak = peak_counts(ops);
    std::string row =
        fmt::format("{:>4}  {:>6}  {:>14}  ", rank, schedule.num_warmup[rank], peak.in_flight);
    if (splits)
      row += fmt::format("{:>7}  {:>6}  ", peak.until_input_gradient, peak.awaiting_weight);
    // A blank and three letters at least an op: more than `width` of them never fit.
    const std::size_t room = static_cast<std::size_t>(std::max(width, 0));
    std::string order = ops_text(ops, room);
    if (ops.size() > 1 && (row.size() + order.size() > room || ops.size() > room)) {
      const std::size_t space =
          room > row.size() + kCut.size() ? room - row.size() - kCut.size() : std::size_t{1};
      const std::size_t end = order.rfind(' ', space);
      order.resize(end == std::string::npos ? std::min(order.find(' '), order.size()) : end);
      order += kCut;
    }
    text += row + order + '\n';
  }
  return text;
}

std::string to_json(const Schedule& schedule) {
  // The name may be a file's: escaped, and readable even when it is not UTF-8.
  const std::string quoted =
      nlohmann::json(schedule.name).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string text = fmt::format(
      "{{\n  \"name\": {},\n  \"num_ranks\": {},\n  \"num_chunks\": {},\n"
      "  \"num_microbatches\": {},\n  \"placement\": \"{}\",\n  \"unit_times\": {},\n  \"ranks\": "
      "[",
      quoted, schedule.num_ranks, schedule.num_chunks, schedule.num_microbatches,
      name(schedule.placement), figures_json(schedule));
  for (std::size_t rank = 0; rank < schedule.ops.size(); ++rank) {
    const std::vector<Op>& ops = schedule.ops[rank];
    const PeakCounts peak = peak_counts(ops);
    text += fmt::format(
        "{}\n    {{\"pipeline_rank\": {}, \"num_warmup\": {}, \"peak_in_flight\": {}, "
        "\"peak_until_input_gradient\": {}, \"peak_awaiting_weight_gradient\": {}, "
        "\"ops\": \"{}\"}}",
        rank == 0 ? "" : ",", rank, schedule.num_warmup[rank], peak.in_flight,
        peak.until_input_gradient, peak.awaiting_weight, ops_text(ops, ops.size()));
  }
  return text + "\n  ]\n}\n";
}

}  // namespace pipeledger
