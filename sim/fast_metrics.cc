// The metrics of a step that is not written down.
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "sim/executor.h"
#include "sim/fast_network.h"
#include "sim/play.h"
#include "sim/recorder.h"

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

/// An event of a rank that moves its memory, in the order of its program. Small, since there are
/// some for every op.
struct Event {
  enum class Kind : std::uint32_t {
    unit,      // `number`: Plan::op_number
    pair,      // `number`: of the pairs
    born,      // a buffer; `number`: its slice
    freed,     // the same
    sent,      // a buffer that goes as the message `number` arrives
    optimizer  // is over
  };
  Seconds at{};  // a unit's begin
  Kind kind{};
  std::uint32_t number = 0;
};

/// Two ops that overlap.
struct Pair {
  const OpProfile* profile = nullptr;
  std::array<Op, 2> ops;
};

/// A sink of StepExecutor: what each rank does to its memory is written down, since a rank may run
/// ahead of messages that free its buffers. The rest is added up.
class EventLog {
 public:
  struct OfRank {
    std::vector<Event> events;
    std::vector<Pair> pairs;
    std::int64_t optimizer_ns = 0, exposed_ns = 0;
  };

  explicit EventLog(const Plan& plan) : plan_(plan), ranks_(plan.ranks.size()) {
    // An op and what comes with it: a message that is received, one that is sent, and one freed.
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      ranks_[rank].events.reserve(4 * plan.schedule.ops[rank].size() + 8);
    }
  }

  void unit(Rank rank, std::span<const Op> ops, const OpProfile& profile, Seconds begin, Seconds) {
    OfRank& own = ranks_[rank.index()];
    if (ops.size() == 1) {
      add(own, begin, Event::Kind::unit, plan_.op_number(ops[0]));
    } else {
      add(own, begin, Event::Kind::pair, own.pairs.size());
      own.pairs.push_back({&profile, {ops[0], ops[1]}});
    }
  }

  void call(Rank rank, const Instruction& call, Seconds now) {
    if (!plan_.book_p2p_buffers) return;
    OfRank& own = ranks_[rank.index()];
    if (const Bytes change = buffer_change(plan_, call); change != Bytes{}) {
      add(own, now, change > Bytes{} ? Event::Kind::born : Event::Kind::freed, call.slice);
    } else if (frees_on_arrival(plan_, call)) {
      add(own, now, Event::Kind::sent, plan_.number_of(call.message()));
    }
  }

  void span(Rank rank, SpanKind, Seconds begin, Seconds end) {
    ranks_[rank.index()].exposed_ns += to_ns(end) - to_ns(begin);
  }

  void optimizer(Rank rank, Seconds begin, Seconds end) {
    OfRank& own = ranks_[rank.index()];
    for (const auto& part : optimizer_spans(plan_.ranks[rank.index()], begin, end)) {
      (part.kind == SpanKind::optimizer ? own.optimizer_ns : own.exposed_ns) +=
          to_ns(part.end) - to_ns(part.begin);
    }
    add(own, end, Event::Kind::optimizer, 0);
  }

  const OfRank& of(Rank rank) const { return ranks_[rank.index()]; }

 private:
  static void add(OfRank& own, Seconds at, Event::Kind kind, std::size_t number) {
    own.events.push_back({at, kind, static_cast<std::uint32_t>(number)});
  }

  const Plan& plan_;
  std::vector<OfRank> ranks_;
};

/// What is looked up for every op, by Plan::op_number.
struct OpTable {
  explicit OpTable(const Plan& plan) : moves(all_buffer_moves(plan)) {
    for (const StageProfile& stage : plan.stages) {
      for (const OpKind kind : {OpKind::F, OpKind::B, OpKind::I, OpKind::W}) {
        profiles.push_back(&stage.of(kind));
        effects.push_back(effect_of(stage.of(kind)));
      }
    }
  }
  static OpKind kind_of(std::size_t number) { return static_cast<OpKind>(number % 4); }

  std::vector<const OpProfile*> profiles;
  std::vector<Effect> effects;
  std::vector<BufferMoves> moves;
};

/// The level of memory as a rank's events go on. Most ops of a step reach no new peak: their effect
/// is added as a whole. The others are walked delta by delta.
class RankLevels {
 public:
  RankLevels(const Plan& plan, const OpTable& table, const Flights& flights,
             const std::vector<Meanwhile>& arrivals, Rank rank)
      : plan_(plan),
        table_(table),
        flights_(flights),
        gradients_seen_(plan.stages.size()),
        arrival_(arrivals.data()),
        arrivals_end_(arrival_ + arrivals.size()) {
    const RankPlan& of_rank = plan.ranks[rank.index()];
    for (std::size_t c = 0; c < kNumCategories; ++c) level_[c] = of_rank.resident[c].value();
    total_ = std::accumulate(level_.begin(), level_.end(), std::int64_t{0});
    row_.resident_bytes = row_.peak_allocated_bytes = total_;
    row_.composition_at_peak = row_.peak_by_category = level_;
    row_.peak_activation_bytes = level_[kActivations] + level_[kLogits];
  }

  void play(const EventLog::OfRank& log) {
    row_.busy_ns = log.optimizer_ns;
    row_.exposed_comm_ns = log.exposed_ns;
    for (const Event& event : log.events) {
      switch (event.kind) {
        case Event::Kind::unit:
          unit(event.number, event.at);
          break;
        case Event::Kind::pair:
          pair(log.pairs[event.number], event.at);
          break;
        case Event::Kind::born:
          buffer(plan_.slice_of_message(event.number), event.at);
          break;
        case Event::Kind::freed:
          buffer(-plan_.slice_of_message(event.number), event.at);
          break;
        case Event::Kind::sent:
          sent(event.number);
          break;
        case Event::Kind::optimizer:
          flush(to_ns(event.at));
          apply(index(Category::gradients), -created_gradients_, to_ns(event.at));
          break;
      }
    }
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
  void unit(std::size_t number, Seconds begin) {
    const OpProfile& profile = *table_.profiles[number];
    const Effect& effect = table_.effects[number];
    const BufferMoves& moves = table_.moves[number];
    const OpKind kind = OpTable::kind_of(number);
    const Seconds end = begin + profile.duration;
    const std::int64_t begin_ns = to_ns(begin), end_ns = to_ns(end);
    buffer(-moves.freed_at_begin, begin);
    const bool first_gradients = makes_first_gradients(kind, number);
    count(kind, begin_ns, end_ns, effect.comm_ns);
    if ((first_gradients && effect.makes_gradients) || reaches_peak(effect, begin_ns, end_ns)) {
      walk(profile, begin, first_gradients);
    } else {
      for (const Effect::OnCategory& on : effect.categories) level_[on.category] += on.change;
      total_ += effect.change;
    }
    buffer(-moves.freed_at_end, end);
    buffer(moves.born_at_end, end);
  }

  void pair(const Pair& pair, Seconds begin) {
    const OpProfile& profile = *pair.profile;
    const Seconds end = begin + profile.duration;
    const Seconds split = begin + (end - begin) * profile.first_share;
    const std::size_t numbers[] = {plan_.op_number(pair.ops[0]), plan_.op_number(pair.ops[1])};
    for (const std::size_t number : numbers) buffer(-table_.moves[number].freed_at_begin, begin);
    count(pair.ops[0].kind, to_ns(begin), to_ns(split), to_ns(profile.comm * profile.first_share));
    count(pair.ops[1].kind, to_ns(split), to_ns(end),
          to_ns(profile.comm * (1 - profile.first_share)));
    walk(profile, begin, makes_first_gradients(pair.ops[1].kind, numbers[1]));
    for (const std::size_t number : numbers) {
      buffer(-table_.moves[number].freed_at_end, end);
      buffer(table_.moves[number].born_at_end, end);
    }
  }

  /// Whether no op of the stage has made gradients yet. Stages of a rank are its chunks.
  bool makes_first_gradients(OpKind kind, std::size_t number) {
    std::uint8_t& seen = gradients_seen_[number / 4 / plan_.num_slices()];
    const bool is_first = seen == 0;
    if (makes_gradients(kind)) seen = 1;
    return is_first;
  }

  void buffer(Bytes delta, Seconds time) {
    if (delta == Bytes{}) return;
    const std::int64_t time_ns = to_ns(time);
    flush(time_ns);
    apply(kBuffers, delta.value(), time_ns);
  }

  void sent(std::size_t message) {
    const Flight& flight = flights_.messages[message];
    const Bytes bytes = plan_.slice_of_message(message % plan_.num_slices());
    if (!is_known(flight.end) || bytes == Bytes{}) return;
    const Meanwhile freed{to_ns(flight.end), -bytes.value()};
    freed_.insert(std::upper_bound(freed_.begin(), freed_.end(), freed), freed);
  }

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

  const Plan& plan_;
  const OpTable& table_;
  const Flights& flights_;
  std::vector<std::uint8_t> gradients_seen_;  // by stage
  const Meanwhile *arrival_, *arrivals_end_;  // by time
  /// Posted messages that have not arrived yet, by time. There are few.
  std::vector<Meanwhile> freed_;
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
std::vector<std::vector<Meanwhile>> arrivals(const Plan& plan, const Flights& flights) {
  std::vector<std::vector<Meanwhile>> by_rank(plan.ranks.size());
  if (!plan.hop_latency || !plan.book_p2p_buffers) return by_rank;
  for_each_message(plan, flights, [&](const Message& message, const Flight& flight, Rank, Rank to) {
    by_rank[to.index()].push_back({to_ns(flight.end), plan.bytes_of(message).value()});
  });
  for (std::vector<Meanwhile>& all : by_rank) merge_runs(all);
  return by_rank;
}

}  // namespace

StepMetrics measure_fast(const Plan& plan, const Topology& topology, const StepTrace& description) {
  FastNetwork network(topology, false);
  EventLog log(plan);
  StepExecutor executor(plan, network, log);  // keeps the profiles of pairs
  const Flights flights = executor.run();
  const OpTable table(plan);
  const std::vector<std::vector<Meanwhile>> arriving = arrivals(plan, flights);

  StepMetrics metrics{.step_ns = to_ns(flights.end)};
  std::int64_t in_ops_ns = 0, first_ns = metrics.step_ns, last_ns = 0;
  for (Rank rank{0}; rank.value < plan.schedule.num_ranks; ++rank.value) {
    RankLevels levels(plan, table, flights, arriving[rank.index()], rank);
    levels.play(log.of(rank));
    metrics.ranks.push_back(levels.finish(metrics.step_ns));
    metrics.ideal_step_ns = std::max(metrics.ideal_step_ns, levels.in_ops_ns());
    in_ops_ns += levels.in_ops_ns();
    first_ns = std::min(first_ns, levels.first_op_ns());
    last_ns = std::max(last_ns, levels.last_op_ns());
  }
  metrics.pipeline_span_ns = std::max<std::int64_t>(0, last_ns - first_ns);
  add_rates(description, in_ops_ns, metrics);
  return metrics;
}

}  // namespace pipeledger
