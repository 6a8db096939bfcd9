// The format `text` of written schedules: a line a rank, 0F0 1B0.
#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "base/json_text.h"
#include "schedules/figures.h"
#include "schedules/formats.h"
#include "schedules/schedule.h"

namespace pipeledger {
namespace {

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
  const std::string quoted = json_string(schedule.name);
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

ScheduleFormat text() {
  return {.name = "text",
          .summary = "ours: 0F0 0F1 0B0, a line a rank",
          .may_be = [](std::string_view) { return true; },
          .read = parse_schedule,
          .write = [](const Schedule& schedule) { return to_text(schedule); }};
}

}  // namespace pipeledger
