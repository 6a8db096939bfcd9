#include "schedules/tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "schedules/shape.h"

namespace pipeledger {
namespace {

constexpr std::string_view kKinds = "FBIW";

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

}  // namespace

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

void OpsReader::add(const Op& op) {
  if (++num_ops_ <= kMaxOps) ranks_.back().push_back(op);
}

void OpsReader::overlap_next() {
  if (!ranks_.back().empty()) ranks_.back().back().overlaps_next = true;
}

Schedule OpsReader::take(std::string_view remedy) && {
  if (num_ops_ > kMaxOps) {
    problems_.add({.message = fmt::format("{} ops are more than the {} a schedule may hold",
                                          num_ops_, kMaxOps),
                   .file = file_});
  }
  if (ranks_.empty()) problems_.add({.message = std::string(remedy), .file = file_});
  if (!problems_.empty()) throw InputError(std::move(problems_).take(file_));

  Schedule schedule{.name = file_};
  schedule.ops = std::move(ranks_);
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

}  // namespace pipeledger
