// The metrics of a step that is not written down.
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "sim/fast.h"
#include "sim/recorder.h"
#include "sim/replay.h"
#include "sim/timing.h"

namespace pipeledger {
namespace {

constexpr std::size_t index(Category category) { return static_cast<std::size_t>(category); }
constexpr std::size_t kActivations = index(Category::activations);
constexpr std::size_t kLogits = index(Category::logits);
constexpr std::size_t kBuffers = index(Category::p2p_buffers);

/// What one op does to memory in the end, and at most on the way; gradients that only a chunk's
/// first backward makes are left out.
struct Effect {
  struct OnCategory {
    std::size_t category;
    std::int64_t change, most;
  };
  std::vector<OnCategory> categories;
  std::int64_t change = 0, most = 0;
  std::int64_t most_kept = 0;  // of activations and logits together
  std::int64_t comm_ns = 0;
  bool makes_gradients = false;
};

Effect effect_of(const OpProfile& profile) {
  Effect effect{.comm_ns = to_ns(profile.comm)};
  std::array<std::int64_t, kNumCategories> change{}, most{};
  for (const TimedDelta& delta : profile.deltas) {
    if (delta.category == Category::gradients) {
      effect.makes_gradients = true;
      continue;
    }
    const std::size_t c = index(delta.category);
    change[c] += delta.bytes.value();
    most[c] = std::max(most[c], change[c]);
    effect.change += delta.bytes.value();
    effect.most = std::max(effect.most, effect.change);
    effect.most_kept = std::max(effect.most_kept, change[kActivations] + change[kLogits]);
  }
  for (std::size_t c = 0; c < kNumCategories; ++c) {
    if (change[c] != 0 || most[c] != 0) effect.categories.push_back({c, change[c], most[c]});
  }
  return effect;
}

/// A buffer's birth or death by the network.
struct Meanwhile {
  std::int64_t time_ns = 0;
  std::int64_t bytes = 0;

  auto operator<=>(const Meanwhile&) const = default;
};

/// Sorts what is a few sorted runs, one behind the other.
void merge_runs(std::vector<Meanwhile>& all) {
  std::vector<std::ptrdiff_t> ends;
  for (auto run = all.begin(); run != all.end();) {
    run = std::is_sorted_until(run, all.end());
    ends.push_back(run - all.begin());
  }
  while (ends.size() > 1) {
    std::vector<std::ptrdiff_t> merged;
    std::ptrdiff_t begin = 0;
    for (std::size_t i = 0; i < ends.size(); i += 2) {
      if (i + 1 < ends.size()) {
        std::inplace_merge(all.begin() + begin, all.begin() + ends[i], all.begin() + ends[i + 1]);
      }
      begin = ends[std::min(i + 1, ends.size() - 1)];
      merged.push_back(begin);
    }
    ends = std::move(merged);
  }
}

/// The level of memory as a rank's replay goes on. Most ops of a step reach no new peak: their
/// effect is added as a whole. The others are walked delta by delta.
class MetricsSink {
 public:
  MetricsSink(const RankPlan& plan, const std::vector<Effect>& effects,
              const std::vector<Meanwhile>& arrivals)
      : effects_(effects), arrival_(arrivals.data()), arrivals_end_(arrival_ + arrivals.size()) {
    for (std::size_t c = 0; c < kNumCategories; ++c) level_[c] = plan.resident[c].value();
    total_ = std::accumulate(level_.begin(), level_.end(), std::int64_t{0});
    row_.resident_bytes = row_.peak_allocated_bytes = total_;
    row_.composition_at_peak = row_.peak_by_category = level_;
    row_.peak_activation_bytes = level_[kActivations] + level_[kLogits];
  }

  void unit(std::span<const Op> ops, const OpProfile& profile, std::size_t number, Seconds begin,
            bool first_gradients) {
    const std::int64_t begin_ns = to_ns(begin);
    const std::int64_t end_ns = to_ns(begin + profile.duration);
    if (number == kPair) {
      const Seconds split = begin + (begin + profile.duration - begin) * profile.first_share;
      const std::int64_t split_ns = to_ns(split);
      count(ops[0].kind, begin_ns, split_ns, to_ns(profile.comm * profile.first_share));
      count(ops[1].kind, split_ns, end_ns, to_ns(profile.comm * (1 - profile.first_share)));
      return walk(profile, begin, first_gradients);
    }
    const Effect& effect = effects_[number];
    count(ops[0].kind, begin_ns, end_ns, effect.comm_ns);
    if ((first_gradients && effect.makes_gradients) || reaches_peak(effect, begin_ns, end_ns)) {
      return walk(profile, begin, first_gradients);
    }
    for (const Effect::OnCategory& on : effect.categories) level_[on.category] += on.change;
    total_ += effect.change;
  }

  void span(SpanKind kind, Seconds begin, Seconds end) {
    const std::int64_t length_ns = to_ns(end) - to_ns(begin);
    (kind == SpanKind::optimizer ? row_.busy_ns : row_.exposed_comm_ns) += length_ns;
  }

  void buffer(Bytes delta, Seconds time) {
    const std::int64_t time_ns = to_ns(time);
    flush(time_ns);
    apply(kBuffers, delta.value(), time_ns);
  }

  void buffer_meanwhile(Bytes delta, Seconds time) {
    if (delta == Bytes{}) return;
    const Meanwhile freed{to_ns(time), delta.value()};
    freed_.insert(std::upper_bound(freed_.begin(), freed_.end(), freed), freed);
  }

  void free_created_gradients(Seconds time) {
    flush(to_ns(time));
    apply(index(Category::gradients), -created_gradients_, to_ns(time));
  }

  RankMetrics finish(std::int64_t step_ns) {
    flush(std::numeric_limits<std::int64_t>::max());
    row_.bubble_ns = step_ns - row_.busy_ns - row_.exposed_comm_ns;
    row_.naive_sum_bytes = std::accumulate(row_.peak_by_category.begin(),
                                           row_.peak_by_category.end(), std::int64_t{0});
    return row_;
  }

  std::int64_t in_ops_ns() const { return in_ops_ns_; }
  std::int64_t first_op_ns() const { return first_op_ns_; }
  std::int64_t last_op_ns() const { return last_op_ns_; }

 private:
  void count(OpKind kind, std::int64_t begin_ns, std::int64_t end_ns, std::int64_t comm_ns) {
    const std::int64_t length_ns = end_ns - begin_ns;
    comm_ns = std::min(comm_ns, length_ns);
    row_.busy_ns += length_ns - comm_ns;
    row_.exposed_comm_ns += comm_ns;
    in_ops_ns_ += length_ns;
    first_op_ns_ = std::min(first_op_ns_, begin_ns);
    last_op_ns_ = std::max(last_op_ns_, end_ns);
    if (kind == OpKind::F) row_.peak_in_flight = std::max(row_.peak_in_flight, ++in_flight_);
    if (kind == OpKind::B || kind == OpKind::I) --in_flight_;
  }

  /// Whether the op could make a new peak, all that arrives meanwhile being there from the start.
  bool reaches_peak(const Effect& effect, std::int64_t begin_ns, std::int64_t end_ns) {
    flush(begin_ns);
    std::int64_t arriving = 0;
    for (const Meanwhile* a = arrival_; a != arrivals_end_ && a->time_ns <= end_ns; ++a) {
      arriving += a->bytes;
    }
    if (total_ + arriving + effect.most > row_.peak_allocated_bytes) return true;
    if (level_[kActivations] + level_[kLogits] + effect.most_kept > row_.peak_activation_bytes) {
      return true;
    }
    return std::any_of(effect.categories.begin(), effect.categories.end(),
                       [&](const Effect::OnCategory& on) {
                         return level_[on.category] + on.most > row_.peak_by_category[on.category];
                       });
  }

  void walk(const OpProfile& profile, Seconds begin, bool first_gradients) {
    for (const TimedDelta& delta : profile.deltas) {
      if (delta.category == Category::gradients) {
        if (!first_gradients) continue;
        created_gradients_ += delta.bytes.value();
      }
      const std::int64_t time_ns = to_ns(begin + delta.at);
      flush(time_ns);
      apply(index(delta.category), delta.bytes.value(), time_ns);
    }
  }

  /// What the network did until then; of one time, deaths first.
  void flush(std::int64_t time_ns) {
    while (true) {
      const bool frees = !freed_.empty() && freed_.front().time_ns <= time_ns;
      const bool arrives = arrival_ != arrivals_end_ && arrival_->time_ns <= time_ns;
      if (!frees && !arrives) return;
      if (frees && (!arrives || freed_.front().time_ns <= arrival_->time_ns)) {
        apply(kBuffers, freed_.front().bytes, freed_.front().time_ns);
        freed_.erase(freed_.begin());
      } else {
        apply(kBuffers, arrival_->bytes, arrival_->time_ns);
        ++arrival_;
      }
    }
  }

  void apply(std::size_t category, std::int64_t bytes, std::int64_t time_ns) {
    level_[category] += bytes;
    total_ += bytes;
    if (bytes <= 0) return;
    std::int64_t& most = row_.peak_by_category[category];
    most = std::max(most, level_[category]);
    row_.peak_activation_bytes =
        std::max(row_.peak_activation_bytes, level_[kActivations] + level_[kLogits]);
    if (total_ <= row_.peak_allocated_bytes) return;
    row_.peak_allocated_bytes = total_;
    row_.peak_time_ns = time_ns;
    row_.composition_at_peak = level_;
  }

  const std::vector<Effect>& effects_;
  const Meanwhile *arrival_, *arrivals_end_;  // by time
  std::vector<Meanwhile> freed_;              // told, not yet done, by time: few
  std::array<std::int64_t, kNumCategories> level_{};
  std::int64_t total_ = 0;
  std::int64_t created_gradients_ = 0;
  int in_flight_ = 0;
  std::int64_t in_ops_ns_ = 0;
  std::int64_t first_op_ns_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t last_op_ns_ = 0;
  RankMetrics row_;
};

/// Under hop_latency: what arrives on each rank, by time.
std::vector<std::vector<Meanwhile>> arrivals(const Plan& plan, const Timing& timing) {
  std::vector<std::vector<Meanwhile>> by_rank(plan.ranks.size());
  if (!plan.hop_latency || !plan.book_p2p_buffers) return by_rank;
  for_each_message(
      plan, timing, 0, [&](const Message& message, const Flight& flight, Rank, Rank to) {
        const Bytes bytes = plan.slice_of_message(static_cast<std::size_t>(message.slice));
        by_rank[to.index()].push_back({to_ns(flight.end), bytes.value()});
      });
  for (std::vector<Meanwhile>& all : by_rank) merge_runs(all);
  return by_rank;
}

}  // namespace

StepMetrics measure_fast(const Plan& plan, const Topology& topology, const StepTrace& description) {
  const Timing timing = time_plan(plan, topology);
  const OpTables tables(plan);
  std::vector<Effect> effects;
  for (const OpProfile* profile : tables.profiles) effects.push_back(effect_of(*profile));
  const std::vector<std::vector<Meanwhile>> arriving = arrivals(plan, timing);

  StepMetrics metrics{.step_ns = to_ns(timing.end)};
  std::int64_t in_ops_ns = 0, first_ns = metrics.step_ns, last_ns = 0;
  for (Rank rank{0}; rank.value < plan.schedule.num_ranks; ++rank.value) {
    MetricsSink sink(plan.ranks[rank.index()], effects, arriving[rank.index()]);
    Replay(plan, timing, tables, rank, sink).run();
    metrics.ranks.push_back(sink.finish(metrics.step_ns));
    metrics.ideal_step_ns = std::max(metrics.ideal_step_ns, sink.in_ops_ns());
    in_ops_ns += sink.in_ops_ns();
    first_ns = std::min(first_ns, sink.first_op_ns());
    last_ns = std::max(last_ns, sink.last_op_ns());
  }
  metrics.pipeline_span_ns = std::max<std::int64_t>(0, last_ns - first_ns);
  add_rates(description, in_ops_ns, metrics);
  return metrics;
}

}  // namespace pipeledger
