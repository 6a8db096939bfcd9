#include "sim/timing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace pipeledger {
namespace {

constexpr Seconds kUnknown{-1};
constexpr std::size_t kNobody = std::numeric_limits<std::size_t>::max();

/// What a flow takes on a route that it has to itself: the engine's own sum, latency first.
struct Delay {
  Seconds latency{}, transfer{};

  Seconds after(Seconds begin) const { return begin + latency + transfer; }
};

Delay delay_of(const Topology& topology, GpuPair pair, Bytes bytes) {
  Delay delay;
  BytesPerSecond narrowest{std::numeric_limits<double>::infinity()};
  for (const Edge edge : topology.route(pair.first, pair.second)) {
    const Link& link = topology.graph()[edge];
    delay.latency += link.latency;
    if (!link.non_blocking) narrowest = std::min(narrowest, link.bandwidth);
  }
  delay.transfer = bytes / narrowest;
  return delay;
}

enum class Sync { grad, param };

/// One collective of the data-parallel group of a lane and stage.
struct Group {
  std::size_t num_missing = 0;  // members that have not declared all of their buckets
  std::vector<Seconds> ready;   // by bucket: when the last member has its part
  std::vector<std::size_t> players;
  Flight flight{kUnknown, kUnknown};
  Seconds first_bucket_end = kUnknown;
};

class Clockwork {
 public:
  Clockwork(const Plan& plan, const Topology& topology);
  Timing run();

 private:
  enum class Closing { begin, grad_sync, tied_embedding, barrier, optimizer, param_sync, done };

  struct Player {
    const Instruction* next = nullptr;
    const Instruction* end = nullptr;
    Seconds* at = nullptr;  // of the next instruction
    Seconds now{};
    std::size_t replica = 0;
    Rank rank{};
    Flight* messages = nullptr;     // of its replica
    std::size_t awaited = kNobody;  // a message, by its number among all; or a group, behind them
    bool posted = false;            // the call at `next` is posted and now waits
    bool sync_enabled = false;
    Closing closing = Closing::begin;
    std::vector<std::uint8_t> forward_seen;     // by chunk
    std::array<std::vector<int>, 2> num_ready;  // by sync and chunk: buckets declared
    ClosingTimes times;
  };

  void make_players();
  void make_delays();
  void make_groups();

  void drain();
  void advance(std::size_t number);
  bool compute(std::size_t number);
  bool communicate(std::size_t number);
  void post(Player& player, const Instruction& instruction);
  bool await(Player& player, std::size_t message);
  bool await_call(Player& player);
  void wake_peer(const Player& player, const Instruction& instruction, std::size_t message);
  void wake(std::size_t number);

  std::size_t group_number(const Player& player, Sync sync, Stage stage) const;
  const CollectiveShare& share(const Player& player, Sync sync, Stage stage) const;
  void declare(Player& player, Sync sync, Stage stage, int bucket, Seconds time);
  void join(Player& player, Sync sync, Stage stage);
  void join_all(Player& player, Sync sync);
  void schedule_buckets(std::size_t group, Sync sync, Stage stage);
  void wake_group(std::size_t group);
  bool await_group(Player& player, std::size_t group, bool first_bucket);
  bool await_all(Player& player, Sync sync);
  bool await_parameters(Player& player, const Op& op);

  bool close(std::size_t number);
  bool sum_tied_embeddings(std::size_t number);
  void reach_barrier(std::size_t number);

  const Schedule& schedule() const { return plan_.schedule; }
  std::size_t num_stages() const { return static_cast<std::size_t>(schedule().num_stages()); }
  std::size_t num_ranks() const { return static_cast<std::size_t>(schedule().num_ranks); }
  std::size_t copy_of(Microbatch microbatch) const {
    return goes_up_.empty() ? 0 : goes_up_[microbatch.index()];
  }

  const Plan& plan_;
  const Topology& topology_;
  Timing timing_;
  std::vector<Player> players_;  // by replica, then rank
  std::vector<std::size_t> ready_;
  std::vector<std::uint8_t> goes_up_;  // by microbatch; empty: none does
  std::vector<int> rank_of_;           // by copy, then stage
  /// By replica, payload, copy, stage, slice.
  std::vector<Delay> delays_;
  std::vector<Seconds> durations_;  // by stage, slice, kind
  PairProfiles pairs_;
  std::vector<std::array<Delay, 2>> tied_delays_;  // by replica
  std::vector<Group> groups_;                      // by sync, lane, stage
  std::size_t num_lanes_ = 0;
  std::size_t num_at_barrier_ = 0;
  Seconds barrier_{};
};

Clockwork::Clockwork(const Plan& plan, const Topology& topology)
    : plan_(plan),
      topology_(topology),
      goes_up_(plan.schedule.goes_up.begin(), plan.schedule.goes_up.end()) {
  for (const StageProfile& stage : plan.stages) {
    for (const OpKind kind : {OpKind::F, OpKind::B, OpKind::I, OpKind::W}) {
      durations_.push_back(stage.of(kind).duration);
    }
  }
  make_players();
  make_delays();
  make_groups();
}

void Clockwork::make_players() {
  const auto num_chunks = static_cast<std::size_t>(schedule().num_chunks);
  timing_.messages.assign(plan_.replicas.size() * plan_.num_messages(), {kUnknown, kUnknown});
  timing_.tied.assign(2 * plan_.replicas.size(), {kUnknown, kUnknown});
  timing_.at.resize(num_ranks());
  players_.resize(plan_.replicas.size() * num_ranks());
  for (std::size_t number = 0; number < players_.size(); ++number) {
    Player& player = players_[number];
    player.replica = number / num_ranks();
    player.rank = Rank{static_cast<int>(number % num_ranks())};
    const Program& program = plan_.programs[player.rank.index()];
    player.next = program.data();
    player.end = program.data() + program.size();
    // Other replicas run the same programs; nobody asks when.
    if (player.replica == 0) timing_.at[number].resize(program.size());
    if (player.replica == 0) player.at = timing_.at[number].data();
    player.messages = timing_.messages.data() + player.replica * plan_.num_messages();
    player.forward_seen.resize(num_chunks);
    for (auto& num_ready : player.num_ready) num_ready.resize(num_chunks);
    num_lanes_ =
        std::max(num_lanes_, static_cast<std::size_t>(plan_.replicas[player.replica].lane) + 1);
  }
}

void Clockwork::make_delays() {
  const auto copies = static_cast<std::size_t>(schedule().num_copies());
  for (std::size_t copy = 0; copy < copies; ++copy) {
    for (int stage = 0; stage < schedule().num_stages(); ++stage) {
      rank_of_.push_back(homes(schedule(), Stage{stage})[copy].rank.value);
    }
  }
  for (const Replica& replica : plan_.replicas) {
    for (const int direction : {1, -1}) {
      for (std::size_t copy = 0; copy < copies; ++copy) {
        for (int stage = 0; stage < schedule().num_stages(); ++stage) {
          const int to = stage + direction;
          const int* ranks = rank_of_.data() + copy * num_stages();
          const bool exists = to >= 0 && to < schedule().num_stages() && ranks[stage] != ranks[to];
          for (std::size_t slice = 0; slice < plan_.num_slices(); ++slice) {
            Delay delay;
            if (plan_.hop_latency) {
              delay.latency = *plan_.hop_latency;
            } else if (exists) {
              delay = delay_of(topology_,
                               {replica.gpus[static_cast<std::size_t>(ranks[stage])],
                                replica.gpus[static_cast<std::size_t>(ranks[to])]},
                               plan_.slice_of_message(slice));
            }
            delays_.push_back(delay);
          }
        }
      }
    }
    if (plan_.tied_embedding_bytes == Bytes{}) continue;
    const std::size_t first = replica.gpus.front(), last = replica.gpus.back();
    tied_delays_.push_back({delay_of(topology_, {first, last}, plan_.tied_embedding_bytes),
                            delay_of(topology_, {last, first}, plan_.tied_embedding_bytes)});
  }
}

void Clockwork::make_groups() {
  groups_.resize(2 * num_lanes_ * num_stages());
  for (std::size_t number = 0; number < groups_.size(); ++number) {
    Group& group = groups_[number];
    const Stage stage{static_cast<int>(number % num_stages())};
    const std::size_t lane = number / num_stages() % num_lanes_;
    for (std::size_t replica = 0; replica < plan_.replicas.size(); ++replica) {
      if (static_cast<std::size_t>(plan_.replicas[replica].lane) != lane) continue;
      for (const Home& home : homes(schedule(), stage)) {
        group.players.push_back(replica * num_ranks() + home.rank.index());
      }
    }
    const Sync sync = number < groups_.size() / 2 ? Sync::grad : Sync::param;
    const CollectiveShare& own = share(players_[group.players.front()], sync, stage);
    group.num_missing = own.empty() ? 0 : group.players.size();
    group.ready.resize(own.empty() ? 0 : static_cast<std::size_t>(own.num_buckets));
    if (own.empty()) group.flight = {}, group.first_bucket_end = Seconds{};
  }
}

Timing Clockwork::run() {
  for (std::size_t number = players_.size(); number-- > 0;) {
    const Program& program = plan_.programs[players_[number].rank.index()];
    const bool gathers_by_calls = plan_.overlap_param_gather &&
                                  std::any_of(program.begin(), program.end(), [](const auto& call) {
                                    return call.action == Action::param_sync;
                                  });
    if (plan_.overlap_param_gather && !gathers_by_calls) join_all(players_[number], Sync::param);
    ready_.push_back(number);
  }
  drain();
  std::vector<std::size_t> next;
  bool deadlock = false;
  for (const Player& player : players_) {
    deadlock |= player.closing != Closing::done;
    timing_.end = std::max(timing_.end, player.times.end);
    if (player.replica > 0) continue;
    const Program& program = plan_.programs[player.rank.index()];
    next.push_back(static_cast<std::size_t>(player.next - program.data()));
    timing_.closing.push_back(player.times);
  }
  if (deadlock) throw_deadlock(plan_, next);
  for (std::size_t number = 0; number < groups_.size(); ++number) {
    const bool grad = number < groups_.size() / 2;
    (grad ? timing_.grad_sync : timing_.param_sync).push_back(groups_[number].flight);
    if (!grad) timing_.first_bucket_end.push_back(groups_[number].first_bucket_end);
  }
  return std::move(timing_);
}

/// Times do not depend on the order in which players run: each runs until it waits for something
/// whose time nobody knows yet.
void Clockwork::drain() {
  while (!ready_.empty()) {
    const std::size_t number = ready_.back();
    ready_.pop_back();
    advance(number);
  }
}

void Clockwork::wake(std::size_t number) {
  players_[number].awaited = kNobody;
  ready_.push_back(number);
}

void Clockwork::advance(std::size_t number) {
  Player& player = players_[number];
  while (player.next != player.end) {
    const Instruction& instruction = *player.next;
    switch (instruction.action) {
      case Action::compute:
        if (!compute(number)) return;
        continue;
      case Action::communicate:
        if (!communicate(number)) return;
        continue;
      case Action::wait:
        if (!await(player, plan_.number_of(instruction.message()))) return;
        break;
      case Action::free_output:
      case Action::keep_input:
      case Action::drop_input:
        break;
      case Action::enter_no_sync:
        player.sync_enabled = false;
        break;
      case Action::exit_no_sync:
        player.sync_enabled = true;
        break;
      case Action::first_microbatch:
        if (plan_.overlap_param_gather &&
            !await_group(player, group_number(player, Sync::param, instruction.stage), true)) {
          return;
        }
        break;
      case Action::grad_sync:
        join(player, Sync::grad, instruction.stage);
        break;
      case Action::param_sync:
        join(player, Sync::param, instruction.stage);
        break;
      case Action::finalize_model_grads:
        if (!close(number)) return;
        break;
    }
    if (player.at != nullptr) *player.at++ = player.now;
    ++player.next;
  }
  player.closing = Closing::done;
  player.times.end = player.now;
}

/// An op, or both of a pair.
bool Clockwork::compute(std::size_t number) {
  Player& player = players_[number];
  const Instruction& first = *player.next;
  if (plan_.overlap_param_gather && !await_parameters(player, first.op())) return false;
  const Instruction& last = first.more ? player.next[1] : first;
  const Seconds begin = player.now;
  const Seconds duration =
      first.more ? pairs_.of(plan_, first.op(), last.op()).duration
                 : durations_[(first.stage.index() * plan_.num_slices() + first.slice) * 4 +
                              static_cast<std::size_t>(first.kind)];
  player.now = begin + duration;
  if (player.at != nullptr) {
    *player.at++ = begin;
    if (first.more) *player.at++ = begin;
  }
  player.next += first.more ? 2 : 1;
  if (player.sync_enabled && plan_.overlap_grad_reduce && makes_gradients(last.kind)) {
    const int num_buckets = share(player, Sync::grad, last.stage).num_buckets;
    for (int bucket = 1; bucket < num_buckets; ++bucket) {
      declare(player, Sync::grad, last.stage, bucket - 1,
              begin + duration * (static_cast<double>(bucket) / num_buckets));
    }
    join(player, Sync::grad, last.stage);
  }
  return true;
}

/// Posts the whole call, then waits for it when it blocks.
bool Clockwork::communicate(std::size_t number) {
  Player& player = players_[number];
  if (!player.posted) {
    while (true) {
      const Instruction& instruction = *player.next;
      if (instruction.moves()) post(player, instruction);
      if (!instruction.more) break;
      if (player.at != nullptr) *player.at++ = player.now;
      ++player.next;
    }
  }
  if (player.next->blocking && !await_call(player)) return false;
  if (player.at != nullptr) *player.at++ = player.now;
  ++player.next;
  return true;
}

/// A flow begins when both ends have posted it; under hop_latency, as it is sent.
void Clockwork::post(Player& player, const Instruction& instruction) {
  const std::size_t message = plan_.number_of(instruction.message());
  Flight& flight = player.messages[message];
  if (plan_.hop_latency) {
    if (!sends(instruction.channel)) return;
    flight.begin = player.now;
  } else {
    const bool first = flight.begin < Seconds{};
    flight.begin = std::max(flight.begin, player.now);
    if (first) return;
  }
  const std::size_t copies = rank_of_.size() / num_stages();
  const std::size_t payload = instruction.payload == Payload::activation ? 0 : 1;
  const std::size_t stream =
      ((player.replica * 2 + payload) * copies + copy_of(instruction.microbatch)) * num_stages() +
      instruction.stage.index();
  flight.end = delays_[stream * plan_.num_slices() + instruction.slice].after(flight.begin);
  wake_peer(player, instruction, message);
}

void Clockwork::wake_peer(const Player& player, const Instruction& instruction,
                          std::size_t message) {
  int stage = instruction.stage.value;
  if (sends(instruction.channel)) stage += instruction.payload == Payload::activation ? 1 : -1;
  const std::size_t rank = static_cast<std::size_t>(
      rank_of_[copy_of(instruction.microbatch) * num_stages() + static_cast<std::size_t>(stage)]);
  const std::size_t peer = player.replica * num_ranks() + rank;
  if (players_[peer].awaited == message) wake(peer);
}

/// False, and the player sleeps, while nobody knows when the message arrives.
bool Clockwork::await(Player& player, std::size_t message) {
  const Seconds end = player.messages[message].end;
  if (end < Seconds{}) {
    player.awaited = message;
    return false;
  }
  player.now = std::max(player.now, end);
  return true;
}

/// The call's last instruction is at `next`; a player that sleeps in it is `posted`. Its clock
/// moves when all are known, since the wait is one.
bool Clockwork::await_call(Player& player) {
  const Instruction* instruction = player.next;
  Seconds end = player.now;
  while (true) {
    if (instruction->moves()) {
      const std::size_t message = plan_.number_of(instruction->message());
      if (player.messages[message].end < Seconds{}) {
        player.awaited = message;
        player.posted = true;
        return false;
      }
      end = std::max(end, player.messages[message].end);
    }
    const bool begins = instruction == plan_.programs[player.rank.index()].data() ||
                        instruction[-1].action != Action::communicate || !instruction[-1].more;
    if (begins) break;
    --instruction;
  }
  player.posted = false;
  player.now = end;
  return true;
}

std::size_t Clockwork::group_number(const Player& player, Sync sync, Stage stage) const {
  const auto lane = static_cast<std::size_t>(plan_.replicas[player.replica].lane);
  return (static_cast<std::size_t>(sync) * num_lanes_ + lane) * num_stages() + stage.index();
}

const CollectiveShare& Clockwork::share(const Player& player, Sync sync, Stage stage) const {
  const Replica& replica = plan_.replicas[player.replica];
  const std::size_t place = player.rank.index() * static_cast<std::size_t>(schedule().num_chunks) +
                            chunk_on(schedule(), player.rank, stage).index();
  return (sync == Sync::grad ? replica.grad_sync : replica.param_sync)[place];
}

/// The player's part of a bucket is ready at `time`; buckets come in order.
void Clockwork::declare(Player& player, Sync sync, Stage stage, int bucket, Seconds time) {
  const std::size_t number = group_number(player, sync, stage);
  Group& group = groups_[number];
  if (group.ready.empty()) return;
  int& num_ready = player.num_ready[static_cast<std::size_t>(sync)]
                                   [chunk_on(schedule(), player.rank, stage).index()];
  if (bucket < num_ready) return;
  PIPELEDGER_CHECK(bucket == num_ready, "bucket {} after {}", bucket, num_ready);
  ++num_ready;
  Seconds& ready = group.ready[static_cast<std::size_t>(bucket)];
  ready = std::max(ready, time);
  if (num_ready == static_cast<int>(group.ready.size())) --group.num_missing;
  if (group.num_missing == 0) schedule_buckets(number, sync, stage);
}

void Clockwork::join(Player& player, Sync sync, Stage stage) {
  const int num_buckets = share(player, sync, stage).num_buckets;
  for (int bucket = 0; bucket < num_buckets; ++bucket) {
    declare(player, sync, stage, bucket, player.now);
  }
}

void Clockwork::join_all(Player& player, Sync sync) {
  for (int chunk = 0; chunk < schedule().num_chunks; ++chunk) {
    join(player, sync, schedule().stage_of(player.rank, Chunk{chunk}));
  }
}

/// All members have all their parts: a bucket goes when all have it and the one before is done.
void Clockwork::schedule_buckets(std::size_t number, Sync sync, Stage stage) {
  Group& group = groups_[number];
  Seconds now{};
  for (std::size_t bucket = 0; bucket < group.ready.size(); ++bucket) {
    now = std::max(now, group.ready[bucket]);
    if (bucket == 0) group.flight.begin = now;
    const auto done = static_cast<std::int64_t>(bucket);
    Seconds end = now;
    for (const std::size_t member : group.players) {
      const CollectiveShare& own = share(players_[member], sync, stage);
      for (const auto& flow : own.flows) {
        const Bytes part =
            flow.bytes * (done + 1) / own.num_buckets - flow.bytes * done / own.num_buckets;
        const Seconds begin = now + own.latency;
        const Seconds arrived = delay_of(topology_, flow.ends, part).after(begin);
        timing_.collective_flows.push_back({flow.ends, part, {begin, arrived}});
        end = std::max(end, arrived);
      }
    }
    now = end;
    if (bucket == 0) group.first_bucket_end = now;
  }
  group.flight.end = now;
  wake_group(number);
}

void Clockwork::wake_group(std::size_t group) {
  for (const std::size_t member : groups_[group].players) {
    if (players_[member].awaited == timing_.messages.size() + group) wake(member);
  }
}

bool Clockwork::await_group(Player& player, std::size_t number, bool first_bucket) {
  const Group& group = groups_[number];
  const Seconds end = first_bucket ? group.first_bucket_end : group.flight.end;
  if (end < Seconds{}) {
    player.awaited = timing_.messages.size() + number;
    return false;
  }
  player.now = std::max(player.now, end);
  return true;
}

bool Clockwork::await_all(Player& player, Sync sync) {
  Seconds end = player.now;
  for (int chunk = 0; chunk < schedule().num_chunks; ++chunk) {
    const std::size_t number =
        group_number(player, sync, schedule().stage_of(player.rank, Chunk{chunk}));
    const Seconds known = groups_[number].flight.end;
    if (known < Seconds{}) {
      player.awaited = timing_.messages.size() + number;
      return false;
    }
    end = std::max(end, known);
  }
  player.now = end;
  return true;
}

/// The first forward of a chunk has awaited its first bucket; the second awaits them all.
bool Clockwork::await_parameters(Player& player, const Op& op) {
  if (op.kind != OpKind::F) return true;
  std::uint8_t& seen = player.forward_seen[schedule().chunk_of(op).index()];
  if (seen != 0 && !await_group(player, group_number(player, Sync::param, op.stage), false)) {
    return false;
  }
  seen = 1;
  return true;
}

/// The end of the step, part by part; a part that must wait is asked again.
bool Clockwork::close(std::size_t number) {
  Player& player = players_[number];
  switch (player.closing) {
    case Closing::begin:
      player.times.gradients = player.now;
      join_all(player, Sync::grad);
      player.closing = Closing::grad_sync;
      [[fallthrough]];
    case Closing::grad_sync:
      if (!await_all(player, Sync::grad)) return false;
      player.times.tied_embedding = player.now;
      player.closing = Closing::tied_embedding;
      [[fallthrough]];
    case Closing::tied_embedding:
      if (!sum_tied_embeddings(number)) return false;
      player.closing = Closing::barrier;
      reach_barrier(number);
      return false;
    case Closing::barrier:
      return false;
    case Closing::optimizer:
      player.times.optimizer_begin = barrier_ + plan_.grad_norm_time;
      player.times.optimizer_end =
          player.times.optimizer_begin + plan_.ranks[player.rank.index()].optimizer.total();
      player.now = player.times.optimizer_end;
      player.closing = Closing::param_sync;
      if (!plan_.overlap_param_gather) join_all(player, Sync::param);
      [[fallthrough]];
    case Closing::param_sync:
      return plan_.overlap_param_gather || await_all(player, Sync::param);
    case Closing::done:
      return true;
  }
  return true;
}

/// The first and the last rank each send the other their copy's gradients.
bool Clockwork::sum_tied_embeddings(std::size_t number) {
  Player& player = players_[number];
  const bool first = player.rank.value == 0;
  const bool last = player.rank.index() + 1 == num_ranks();
  if (plan_.tied_embedding_bytes == Bytes{} || first == last) return true;
  Flight* flights = timing_.tied.data() + 2 * player.replica;
  const std::size_t peer = first ? number + num_ranks() - 1 : number - (num_ranks() - 1);
  const std::size_t token = timing_.messages.size() + groups_.size() + player.replica;
  if (!player.posted) {
    player.posted = true;
    for (std::size_t i = 0; i < 2; ++i) {
      const bool second = flights[i].begin >= Seconds{};
      flights[i].begin = std::max(flights[i].begin, player.now);
      if (second) flights[i].end = tied_delays_[player.replica][i].after(flights[i].begin);
    }
    if (players_[peer].awaited == token) wake(peer);
  }
  if (flights[0].end < Seconds{}) {
    player.awaited = token;
    return false;
  }
  player.posted = false;
  player.now = std::max({player.now, flights[0].end, flights[1].end});
  return true;
}

void Clockwork::reach_barrier(std::size_t number) {
  barrier_ = std::max(barrier_, players_[number].now);
  if (++num_at_barrier_ < players_.size()) return;
  for (std::size_t player = 0; player < players_.size(); ++player) {
    players_[player].closing = Closing::optimizer;
    ready_.push_back(player);
  }
}

}  // namespace

Timing time_plan(const Plan& plan, const Topology& topology) {
  return Clockwork(plan, topology).run();
}

}  // namespace pipeledger
