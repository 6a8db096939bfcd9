// The format `torch-comms-csv`: PyTorch's lowered orders, with sends and receives.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "schedules/formats.h"
#include "schedules/torch_actions.h"

namespace pipeledger {
namespace {

/// What a rank does next: the op at `op` (a pair: its first), or something with a stage's shards.
struct Step {
  enum class Kind { compute, unshard, reshard, reduce_grad } kind;
  std::size_t op = 0;
  Stage stage;
};

/// For each op, the stages that compute from it on, the soonest first, each once: three of them
/// (PyTorch's max_active_stages), or four where the third is a pair's.
class NextStages {
 public:
  explicit NextStages(const std::vector<Op>& ops) : next_(ops.size()) {
    std::vector<Coming> coming;  // the soonest first
    for (std::size_t at = ops.size(); at-- > 0;) {
      const bool is_second = at > 0 && ops[at - 1].overlaps_next;
      std::erase_if(coming, [&](const Coming& next) { return next.stage == ops[at].stage; });
      coming.insert(coming.begin(), {ops[at].stage, is_second ? at - 1 : at});
      for (std::size_t i = 0; i < coming.size(); ++i) {
        if (i >= kMostActive && coming[i].at != coming[i - 1].at) break;
        next_[at].push_back(coming[i].stage);
      }
    }
  }
  const std::vector<Stage>& operator[](std::size_t at) const { return next_[at]; }

 private:
  static constexpr std::size_t kMostActive = 3;
  struct Coming {
    Stage stage;
    std::size_t at;
  };
  std::vector<std::vector<Stage>> next_;
};

/// A rank's ops with the stages it gathers, lets go and reduces between them.
std::vector<Step> with_shards(const std::vector<Op>& ops, const Schedule& schedule) {
  const NextStages next_stages(ops);
  std::vector<Stage> active;
  std::vector<int> num_backwards(Stage{schedule.num_stages()}.index());
  std::vector<Step> steps;
  const auto reduce_after = [&](const Op& op) {
    if (op.kind != OpKind::B && op.kind != OpKind::W) return;
    if (++num_backwards[op.stage.index()] == schedule.num_microbatches) {
      steps.push_back({Step::Kind::reduce_grad, 0, op.stage});
    }
  };
  for (std::size_t at = 0; at < ops.size(); ++at) {
    const std::vector<Stage>& next = next_stages[at];
    std::erase_if(active, [&](Stage stage) {
      const bool is_needed = std::ranges::find(next, stage) != next.end();
      if (!is_needed) steps.push_back({Step::Kind::reshard, 0, stage});
      return !is_needed;
    });
    for (const Stage stage : next) {
      if (std::ranges::find(active, stage) != active.end()) continue;
      steps.push_back({Step::Kind::unshard, 0, stage});
      active.insert(std::ranges::upper_bound(active, stage), stage);
    }
    steps.push_back({Step::Kind::compute, at});
    reduce_after(ops[at]);
    if (ops[at].overlaps_next) reduce_after(ops[++at]);
  }
  for (const Stage stage : active) steps.push_back({Step::Kind::reshard, 0, stage});
  return steps;
}

/// Sends and receives: ranks take turns, a step each, as far as their inputs are there.
class Lowering {
 public:
  explicit Lowering(const Schedule& schedule)
      : schedule_(schedule), rows_(schedule.ops.size()), next_(schedule.ops.size()) {
    const std::size_t num_cells =
        Stage{schedule.num_stages()}.index() * Microbatch{schedule.num_microbatches}.index();
    has_activation_.resize(num_cells);
    has_gradient_.resize(num_cells);
    for (const std::vector<Op>& ops : schedule.ops) steps_.push_back(with_shards(ops, schedule));
  }

  std::string text() && {
    bool is_done = false;
    while (!is_done) {
      bool progress = false;
      is_done = true;
      for (std::size_t rank = 0; rank < steps_.size(); ++rank) {
        if (next_[rank] == steps_[rank].size()) continue;
        is_done = false;
        progress |= take_step(rank);
      }
      PIPELEDGER_CHECK(is_done || progress, "{} deadlocks", schedule_.name);
    }
    std::string text;
    for (const std::string& row : rows_) text += row + '\n';
    return text;
  }

 private:
  bool take_step(std::size_t rank) {
    const Step& step = steps_[rank][next_[rank]];
    if (step.kind != Step::Kind::compute) {
      constexpr std::string_view kNames[] = {"", "UNSHARD", "RESHARD", "REDUCE_GRAD"};
      append(rank, "{}{}", step.stage.value, kNames[static_cast<std::size_t>(step.kind)]);
    } else if (!compute(rank, step.op)) {
      return false;
    }
    ++next_[rank];
    return true;
  }

  bool compute(std::size_t rank, std::size_t at) {
    const std::vector<Op>& ops = schedule_.ops[rank];
    const bool is_pair = ops[at].overlaps_next;
    if (!is_ready(ops[at]) || (is_pair && !is_ready(ops[at + 1]))) return false;
    append(rank, "{}", torch_cell(ops, at));
    send(rank, ops[at]);
    if (is_pair) send(rank, ops[at + 1]);
    return true;
  }

  bool is_ready(const Op& op) const {
    if (op.kind == OpKind::F) return op.stage.value == 0 || has_activation_[cell(op)];
    if (op.kind == OpKind::W || op.stage.value + 1 == schedule_.num_stages()) return true;
    return has_gradient_[cell(op)];
  }

  /// What an op yields is there for its neighbour; on another rank, by a send and a receive.
  void send(std::size_t rank, Op op) {
    const bool forward = op.kind == OpKind::F;
    const Stage from = op.stage;
    op.stage.value += forward ? 1 : -1;
    if (op.kind == OpKind::W || op.stage.value < 0 || op.stage.value == schedule_.num_stages()) {
      return;
    }
    (forward ? has_activation_ : has_gradient_)[cell(op)] = true;
    const std::size_t to = schedule_.rank_of(op).index();
    if (to == rank) return;
    append(rank, "{}SEND_{}{}", from.value, forward ? 'F' : 'B', op.microbatch.value);
    append(to, "{}RECV_{}{}", op.stage.value, forward ? 'F' : 'B', op.microbatch.value);
  }

  template <class... Values>
  void append(std::size_t rank, fmt::format_string<Values...> format, Values&&... values) {
    std::string& row = rows_[rank];
    if (!row.empty()) row += ',';
    fmt::format_to(std::back_inserter(row), format, std::forward<Values>(values)...);
  }

  std::size_t cell(const Op& op) const {
    return op.stage.index() * Microbatch{schedule_.num_microbatches}.index() +
           op.microbatch.index();
  }

  const Schedule& schedule_;
  std::vector<std::vector<Step>> steps_;  // by rank
  std::vector<std::string> rows_;
  std::vector<std::size_t> next_;
  std::vector<bool> has_activation_;  // by stage that needs it, and microbatch
  std::vector<bool> has_gradient_;
};

}  // namespace

std::string to_torch_comms_csv(const Schedule& schedule) {
  check_torch_has(schedule);
  return Lowering(schedule).text();
}

ScheduleFormat torch_comms() {
  // It is read as torch-csv is.
  return {.name = "torch-comms-csv",
          .summary = "and with its communication",
          .write = to_torch_comms_csv};
}

}  // namespace pipeledger
