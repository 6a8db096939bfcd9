// Plays the programs of a plan: the one place that knows what an instruction waits for.
//
// It has two seams. A network says when a timer ends and when bytes arrive: at once, as a time that
// may lie ahead (FastNetwork), or later, by a token (SimGridNetwork). A sink is told what each rank
// does: it records a trace, adds up metrics or plays the allocator.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "sim/flights.h"
#include "sim/plan.h"
#include "sim/progress.h"
#include "trace/step_trace.h"

namespace pipeledger {

/// Who is told of nothing.
struct NoSink {
  void unit(Rank, std::span<const Op>, const OpProfile&, Seconds, Seconds) {}
  void call(Rank, const Instruction&, Seconds) {}
  void span(Rank, SpanKind, Seconds, Seconds) {}
  void optimizer(Rank, Seconds, Seconds) {}
};

/// Network:
///   Seconds start(): the time at which the step begins;
///   Route route(GpuPair): a number for the way between two GPUs;
///   Seconds timer(Seconds begin, Seconds delay, Token): when it ends, or kUnknown;
///   Seconds flow(Route, Bytes, Seconds begin, Token): when the bytes are there, or kUnknown;
///   run(on_end): tells on_end(token, time) of every end that was unknown, in order of time.
///   Where ends are unknown, `begin` is always the network's own present.
///
/// Sink, of the first replica's ranks, each in the order of its program:
///   unit(rank, ops, profile, begin, end): an op, or a pair that overlaps, is over;
///   call(rank, instruction, now): any other instruction, as it takes effect (a message as it is
///     posted);
///   span(rank, kind, begin, end): a part of a wait in which what it waited for was on its way;
///   optimizer(rank, begin, end).
template <class Network, class Sink>
class StepExecutor {
 public:
  StepExecutor(const Plan& plan, Network& network, Sink& sink, Progress progress = {});

  /// Throws RunError when the ranks wait for each other, naming what each one waits for, and
  /// Cancelled when `progress` says so.
  Flights run();

  using Token = std::uint64_t;

 private:
  using Route = typename Network::Route;
  static constexpr std::size_t kNobody = std::numeric_limits<std::size_t>::max();
  static constexpr std::uint64_t kUnitsPerReport = 4096;

  /// What a token says; its low 32 bits number a player, a message or a group.
  enum class TokenKind : std::uint32_t {
    timer,
    grad_norm,
    message,
    bucket_ready,
    bucket_starts,
    bucket_flow
  };
  static Token token(TokenKind kind, std::size_t number) {
    return (static_cast<Token>(kind) << 32) | number;
  }

  /// One rank of one replica.
  struct Player {
    const Instruction *next = nullptr, *end = nullptr;
    Flight* messages = nullptr;     // of its replica
    Seconds now{};                  // its own clock
    Seconds until{};                // end of the timer of the instruction at `next`
    std::size_t awaited = kNobody;  // a message, by its number among all; a group, behind them
    std::uint32_t replica = 0;
    Rank rank{};
    bool begun = false;  // the instruction at `next` is under way
  };

  /// A way of messages: the ranks of a payload, copy and stage.
  struct Stream {
    std::uint32_t from = 0, to = 0;
  };

  /// One collective of the data-parallel group of a lane and stage. A bucket goes when all members
  /// have it and the one before is done.
  struct Group {
    Flight flight;
    Seconds first_bucket_end = kUnknown;
    Seconds bucket_end{};                          // of the flows so far, or of the bucket before
    std::vector<std::uint32_t> num_members_ready;  // by bucket
    std::vector<Seconds> ready;                    // by bucket: when the last member had it
    std::size_t num_done = 0, num_flows_left = 0;
    bool busy = false;
    std::vector<Route> routes;  // of a bucket's flows, member by member
  };

  void make_streams();
  void make_players();
  void make_groups();

  void drain();
  void wake(std::size_t number);
  void wake_if_awaiting(std::size_t number, std::size_t what);
  void advance(std::size_t number);
  void on_end(Token ended, Seconds time);

  bool pause(std::size_t number, Seconds duration);
  bool unit(std::size_t number);
  bool communicate(std::size_t number);
  void post(const Player& player, const Instruction& call);
  void arrived(std::size_t message, Seconds end);
  void arrived(const Player& player, const Stream& stream, std::size_t message, Seconds end);
  const Flight& awaited_flight(const Player& player, const Instruction& call,
                               Flight& scratch) const;
  std::size_t awaited_number(const Player& player, const Instruction& call) const;
  bool await(std::size_t number, SpanKind kind);
  void record_wait(const Player& player, SpanKind kind);
  bool reach_norm(std::size_t number);

  std::size_t group_number(const Player& player, Sync sync, Stage stage) const;
  const CollectiveShare& share(const Player& player, Sync sync, Stage stage) const;
  std::uint32_t& num_ready(std::size_t number, Sync sync, Stage stage);
  void declare(std::size_t number, Sync sync, Stage stage, std::size_t bucket, Seconds time);
  void join(std::size_t number, Sync sync, Stage stage);
  void start_buckets(std::size_t group);
  bool start_flows(std::size_t group, Seconds begin);
  void bucket_ended(std::size_t group);

  const Schedule& schedule() const { return plan_.schedule; }
  std::size_t copy_of(Microbatch microbatch) const {
    return goes_up_.empty() ? 0 : goes_up_[microbatch.index()];
  }
  std::size_t stream_of(const Message& message) const {
    if (message.payload == Payload::embedding)
      return num_streams_ - (message.stage.value > 0 ? 1 : 2);
    const std::size_t payload = message.payload == Payload::activation ? 0 : 1;
    return (payload * num_copies_ + copy_of(message.microbatch)) * num_stages_ +
           message.stage.index();
  }
  std::size_t number_of(const Player& player, const Message& message) const {
    return player.replica * num_messages_ + plan_.number_of(message);
  }
  const std::vector<std::uint32_t>& members(std::size_t group) const {
    return members_[group % members_.size()];
  }

  const Plan& plan_;
  Network& network_;
  Sink& sink_;
  Progress progress_;
  PairProfiles pairs_;
  Flights flights_;

  const std::size_t num_ranks_, num_stages_, num_chunks_, num_copies_, num_messages_;
  std::size_t num_lanes_ = 0, num_streams_ = 0;
  std::vector<std::uint8_t> goes_up_;  // by microbatch; empty: none does
  std::vector<Stream> streams_;        // by payload, copy, stage; then the embedding's two
  std::vector<Route> routes_;          // by replica, then stream
  std::vector<Player> players_;        // by replica, then rank
  std::vector<std::vector<std::uint32_t>> members_;  // players, by lane and stage
  std::vector<Group> groups_;                        // by sync, lane, stage
  std::vector<std::uint32_t> num_ready_;             // buckets, by player, sync and chunk
  std::size_t num_at_norm_ = 0;
  Flight norm_;

  /// Players that can go on, in the order in which they became ready, and those of whom each now
  /// runs until it waits. A queue and no recursion, however many messages take no time.
  std::vector<std::uint32_t> ready_, running_;
  std::vector<Flight> awaited_;  // by the call that a player waits in
  std::uint64_t num_units_done_ = 0, num_ops_ = 0;
};

/// Tells a sink what a rank does when its order alone matters, at time zero.
template <class Sink>
void tell_in_order(const Program& program, Rank rank, Sink& sink) {
  const OpProfile nothing;
  for (std::size_t i = 0; i < program.size(); ++i) {
    if (program[i].action != Action::compute) {
      sink.call(rank, program[i], Seconds{});
      continue;
    }
    const bool is_pair = program[i].more;
    const std::array<Op, 2> ops = {program[i].op(), is_pair ? program[i + 1].op() : Op{}};
    sink.unit(rank, std::span(ops.data(), is_pair ? 2 : 1), nothing, Seconds{}, Seconds{});
    if (is_pair) ++i;
  }
}

template <class Network, class Sink>
StepExecutor<Network, Sink>::StepExecutor(const Plan& plan, Network& network, Sink& sink,
                                          Progress progress)
    : plan_(plan),
      network_(network),
      sink_(sink),
      progress_(std::move(progress)),
      num_ranks_(static_cast<std::size_t>(plan.schedule.num_ranks)),
      num_stages_(static_cast<std::size_t>(plan.schedule.num_stages())),
      num_chunks_(static_cast<std::size_t>(plan.schedule.num_chunks)),
      num_copies_(static_cast<std::size_t>(plan.schedule.num_copies())),
      num_messages_(plan.num_messages()),
      goes_up_(plan.schedule.goes_up.begin(), plan.schedule.goes_up.end()) {
  make_streams();
  make_players();
  make_groups();
}

template <class Network, class Sink>
void StepExecutor<Network, Sink>::make_streams() {
  for (const int direction : {1, -1}) {
    for (std::size_t copy = 0; copy < num_copies_; ++copy) {
      for (Stage stage{0}; stage.index() < num_stages_; ++stage.value) {
        const Stage to{stage.value + direction};
        const bool leaves_model = to.value < 0 || to.index() == num_stages_;
        const Rank here = homes(schedule(), stage)[copy].rank;
        const Rank there = leaves_model ? here : homes(schedule(), to)[copy].rank;
        streams_.push_back(
            {static_cast<std::uint32_t>(here.value), static_cast<std::uint32_t>(there.value)});
      }
    }
  }
  const auto last = static_cast<std::uint32_t>(num_ranks_ - 1);
  streams_.push_back({0, last});
  streams_.push_back({last, 0});
  num_streams_ = streams_.size();
  routes_.resize(plan_.replicas.size() * num_streams_);
  for (std::size_t i = 0; i < routes_.size(); ++i) {
    const Stream& stream = streams_[i % num_streams_];
    const bool is_embedding = i % num_streams_ + 2 >= num_streams_;
    const bool flows = is_embedding ? plan_.tied_embedding_bytes > Bytes{} : !plan_.hop_latency;
    if (!flows || stream.from == stream.to) continue;
    const std::vector<std::size_t>& gpus = plan_.replicas[i / num_streams_].gpus;
    routes_[i] = network_.route({gpus[stream.from], gpus[stream.to]});
  }
}

template <class Network, class Sink>
void StepExecutor<Network, Sink>::make_players() {
  flights_.messages.resize(plan_.replicas.size() * num_messages_);
  players_.resize(plan_.replicas.size() * num_ranks_);
  num_ready_.resize(players_.size() * kNumSyncs * num_chunks_);
  for (std::size_t number = 0; number < players_.size(); ++number) {
    Player& player = players_[number];
    player.replica = static_cast<std::uint32_t>(number / num_ranks_);
    player.rank = Rank{static_cast<int>(number % num_ranks_)};
    const Program& program = plan_.programs[player.rank.index()];
    player.next = program.data();
    player.end = program.data() + program.size();
    player.messages = flights_.messages.data() + player.replica * num_messages_;
    player.now = network_.start();
    num_ops_ += schedule().ops[player.rank.index()].size();
  }
}

template <class Network, class Sink>
void StepExecutor<Network, Sink>::make_groups() {
  for (const Replica& replica : plan_.replicas) {
    num_lanes_ = std::max(num_lanes_, static_cast<std::size_t>(replica.lane) + 1);
  }
  members_.resize(num_lanes_ * num_stages_);
  for (Stage stage{0}; stage.index() < num_stages_; ++stage.value) {
    const std::vector<Home> copies = homes(schedule(), stage);
    for (std::size_t replica = 0; replica < plan_.replicas.size(); ++replica) {
      const auto lane = static_cast<std::size_t>(plan_.replicas[replica].lane);
      for (const Home& home : copies) {
        members_[lane * num_stages_ + stage.index()].push_back(
            static_cast<std::uint32_t>(replica * num_ranks_ + home.rank.index()));
      }
    }
  }
  groups_.resize(kNumSyncs * members_.size());
  for (std::size_t number = 0; number < groups_.size(); ++number) {
    Group& group = groups_[number];
    const auto sync = static_cast<Sync>(number / members_.size());
    const Stage stage{static_cast<int>(number % num_stages_)};
    const CollectiveShare& own = share(players_[members(number).front()], sync, stage);
    if (own.empty()) group.flight = {Seconds{}, Seconds{}}, group.first_bucket_end = Seconds{};
    group.num_members_ready.resize(own.empty() ? 0 : static_cast<std::size_t>(own.num_buckets));
    group.ready.resize(group.num_members_ready.size());
  }
}

template <class Network, class Sink>
Flights StepExecutor<Network, Sink>::run() {
  for (std::size_t number = 0; number < players_.size(); ++number) {
    ready_.push_back(static_cast<std::uint32_t>(number));
  }
  drain();
  network_.run([this](Token ended, Seconds time) {
    on_end(ended, time);
    drain();
  });
  flights_.end = Seconds{};
  bool is_over = true;
  for (const Player& player : players_) {
    is_over &= player.next == player.end;
    flights_.end = std::max(flights_.end, player.now);
  }
  if (!is_over) {
    std::vector<std::size_t> next;
    for (std::size_t rank = 0; rank < num_ranks_; ++rank) {
      next.push_back(static_cast<std::size_t>(players_[rank].next - plan_.programs[rank].data()));
    }
    throw_deadlock(plan_, next);
  }
  for (const Group& group : groups_) flights_.collectives.push_back(group.flight);
  return std::move(flights_);
}

template <class Network, class Sink>
void StepExecutor<Network, Sink>::drain() {
  while (!ready_.empty()) {
    running_.swap(ready_);
    for (const std::uint32_t number : running_) advance(number);
    running_.clear();
  }
}

template <class Network, class Sink>
void StepExecutor<Network, Sink>::wake(std::size_t number) {
  players_[number].awaited = kNobody;
  ready_.push_back(static_cast<std::uint32_t>(number));
}

template <class Network, class Sink>
void StepExecutor<Network, Sink>::wake_if_awaiting(std::size_t number, std::size_t what) {
  if (players_[number].awaited == what) wake(number);
}

template <class Network, class Sink>
void StepExecutor<Network, Sink>::on_end(Token ended, Seconds time) {
  const auto number = static_cast<std::size_t>(ended & 0xffffffffu);
  switch (static_cast<TokenKind>(ended >> 32)) {
    case TokenKind::timer:
      players_[number].until = time;
      return wake(number);
    case TokenKind::grad_norm:
      norm_.end = time;
      for (std::size_t player = 0; player < players_.size(); ++player) wake(player);
      return;
    case TokenKind::message:
      return arrived(number, time);
    case TokenKind::bucket_ready: {
      const std::size_t player = number / num_chunks_;
      const Chunk chunk{static_cast<int>(number % num_chunks_)};
      const Stage stage = schedule().stage_of(players_[player].rank, chunk);
      return declare(player, Sync::grad, stage, num_ready(player, Sync::grad, stage), time);
    }
    case TokenKind::bucket_starts:
      if (start_flows(number, time)) start_buckets(number);
      return;
    case TokenKind::bucket_flow:
      groups_[number].bucket_end = time;
      if (--groups_[number].num_flows_left > 0) return;
      bucket_ended(number);
      return start_buckets(number);
  }
}

template <class Network, class Sink>
void StepExecutor<Network, Sink>::advance(std::size_t number) {
  Player& player = players_[number];
  while (player.next != player.end) {
    const Instruction& call = *player.next;
    switch (call.action) {
      case Action::compute:
        if (!unit(number)) return;
        continue;
      case Action::communicate:
        if (!communicate(number)) return;
        continue;
      case Action::wait:
        if (!await(number, SpanKind::exposed_p2p)) return;
        if (player.replica == 0) sink_.call(player.rank, call, player.now);
        continue;
      case Action::grad_sync:
        join(number, Sync::grad, call.stage);
        break;
      case Action::param_sync:
        join(number, Sync::param, call.stage);
        break;
      case Action::await_grads:
        if (!await(number, SpanKind::exposed_grad_sync)) return;
        continue;
      case Action::await_params:
      case Action::await_first_params:
        if (!await(number, SpanKind::exposed_param_sync)) return;
        continue;
      case Action::grad_norm:
        if (!reach_norm(number)) return;
        break;
      case Action::optimizer: {
        const Seconds begin = player.now;
        if (!pause(number, plan_.ranks[player.rank.index()].optimizer.total())) return;
        if (player.replica == 0) sink_.optimizer(player.rank, begin, player.now);
        break;
      }
      case Action::free_output:
      case Action::keep_input:
      case Action::drop_input:
      case Action::enter_no_sync:
      case Action::exit_no_sync:
      case Action::first_microbatch:
      case Action::finalize_model_grads:
        break;
    }
    if (player.replica == 0) sink_.call(player.rank, call, player.now);
    ++player.next;
  }
}

/// False, and the player sleeps, until the instruction's timer ends.
template <class Network, class Sink>
bool StepExecutor<Network, Sink>::pause(std::size_t number, Seconds duration) {
  Player& player = players_[number];
  if (!player.begun) {
    player.begun = true;
    player.until = network_.timer(player.now, duration, token(TokenKind::timer, number));
  }
  if (!is_known(player.until)) return false;
  player.begun = false;
  player.now = player.until;
  return true;
}

/// An op, or both of a pair. The hooks of a backward outside no_sync reduce its chunk's gradients,
/// bucket by bucket, each as its share of the op is over.
template <class Network, class Sink>
bool StepExecutor<Network, Sink>::unit(std::size_t number) {
  Player& player = players_[number];
  const Instruction* const first = player.next;
  const std::size_t size = first->more ? 2 : 1;
  const std::array<Op, 2> ops = {first->op(), size == 2 ? first[1].op() : Op{}};
  const OpProfile& profile = size == 2 ? pairs_.of(plan_, ops[0], ops[1]) : plan_.profile(ops[0]);
  const Seconds begin = player.now;
  const bool begins = !player.begun;
  const bool is_over = pause(number, profile.duration);
  if (begins) {
    for (std::size_t i = 0; i < size; ++i) {
      if (!first[i].reduces) continue;
      const int num_buckets = share(player, Sync::grad, ops[i].stage).num_buckets;
      const std::size_t chunk = chunk_on(schedule(), player.rank, ops[i].stage).index();
      for (int bucket = 1; bucket < num_buckets; ++bucket) {
        const Seconds end =
            network_.timer(begin, profile.duration * (static_cast<double>(bucket) / num_buckets),
                           token(TokenKind::bucket_ready, number * num_chunks_ + chunk));
        if (is_known(end)) {
          declare(number, Sync::grad, ops[i].stage, static_cast<std::size_t>(bucket - 1), end);
        }
      }
    }
  }
  if (!is_over) return false;
  if (player.replica == 0) {
    sink_.unit(player.rank, std::span(ops.data(), size), profile, begin, player.now);
  }
  for (std::size_t i = 0; i < size; ++i) {
    if (first[i].reduces) join(number, Sync::grad, ops[i].stage);
    if (++num_units_done_ % kUnitsPerReport == 0 && progress_ &&
        !progress_(static_cast<double>(num_units_done_) / static_cast<double>(num_ops_))) {
      throw Cancelled();
    }
  }
  player.next += size;
  return true;
}

/// The whole call is posted, then awaited when it blocks.
template <class Network, class Sink>
bool StepExecutor<Network, Sink>::communicate(std::size_t number) {
  Player& player = players_[number];
  const Instruction* last = player.next;
  if (!player.begun) {
    for (;; ++last) {
      if (last->moves()) post(player, *last);
      if (player.replica == 0) sink_.call(player.rank, *last, player.now);
      if (!last->more) break;
    }
    if (!last->blocking) {
      player.next = last + 1;
      return true;
    }
    player.begun = true;
  }
  const bool is_embedding = player.next->payload == Payload::embedding;
  return await(number, is_embedding ? SpanKind::exposed_grad_sync : SpanKind::exposed_p2p);
}

/// A flow begins when both ends have posted it; under hop_latency a message between stages goes as
/// it is sent.
template <class Network, class Sink>
void StepExecutor<Network, Sink>::post(const Player& player, const Instruction& call) {
  const Message message = call.message();
  const std::size_t number = plan_.number_of(message);
  const std::size_t stream = stream_of(message);
  const Token ended = token(TokenKind::message, player.replica * num_messages_ + number);
  Flight& flight = player.messages[number];
  Seconds end;
  if (plan_.hop_latency && message.payload != Payload::embedding) {
    if (!sends(call.channel)) return;
    flight.begin = player.now;
    end = *plan_.hop_latency > Seconds{} ? network_.timer(player.now, *plan_.hop_latency, ended)
                                         : player.now;
  } else {
    const bool is_first = !is_known(flight.begin);
    flight.begin = std::max(flight.begin, player.now);
    if (is_first) return;
    end = network_.flow(routes_[player.replica * num_streams_ + stream], plan_.bytes_of(message),
                        flight.begin, ended);
  }
  if (is_known(end)) {
    arrived(player, streams_[stream], player.replica * num_messages_ + number, end);
  }
}

template <class Network, class Sink>
void StepExecutor<Network, Sink>::arrived(std::size_t message, Seconds end) {
  const std::size_t stream = stream_of(plan_.message_of(message % num_messages_));
  arrived(players_[message / num_messages_ * num_ranks_], streams_[stream], message, end);
}

template <class Network, class Sink>
void StepExecutor<Network, Sink>::arrived(const Player& player, const Stream& stream,
                                          std::size_t message, Seconds end) {
  flights_.messages[message].end = end;
  const std::size_t first = player.replica * num_ranks_;
  wake_if_awaiting(first + stream.from, message);
  wake_if_awaiting(first + stream.to, message);
}

/// What an instruction of a call waits for: a message, or a collective (by its number behind all
/// messages).
template <class Network, class Sink>
std::size_t StepExecutor<Network, Sink>::awaited_number(const Player& player,
                                                        const Instruction& call) const {
  switch (call.action) {
    case Action::await_grads:
      return flights_.messages.size() + group_number(player, Sync::grad, call.stage);
    case Action::await_params:
    case Action::await_first_params:
      return flights_.messages.size() + group_number(player, Sync::param, call.stage);
    default:
      return number_of(player, call.message());
  }
}

template <class Network, class Sink>
const Flight& StepExecutor<Network, Sink>::awaited_flight(const Player& player,
                                                          const Instruction& call,
                                                          Flight& scratch) const {
  if (call.action == Action::communicate || call.action == Action::wait) {
    return player.messages[plan_.number_of(call.message())];
  }
  const Group& group = groups_[awaited_number(player, call) - flights_.messages.size()];
  if (call.action != Action::await_first_params) return group.flight;
  return scratch = {group.flight.begin, group.first_bucket_end};
}

/// Waits for all of a call, whose last instruction has no more. False, and the player sleeps, while
/// somebody does not know when it will be there. Its clock moves when all is known, since the wait
/// is one.
template <class Network, class Sink>
bool StepExecutor<Network, Sink>::await(std::size_t number, SpanKind kind) {
  Player& player = players_[number];
  const Instruction* call = player.next;
  Seconds until = player.now;
  Flight scratch;
  for (;; ++call) {
    if (call->moves()) {
      const Flight& flight = awaited_flight(player, *call, scratch);
      if (!is_known(flight.end)) {
        player.awaited = awaited_number(player, *call);
        return false;
      }
      until = std::max(until, flight.end);
    }
    if (!call->more) break;
  }
  if (until > player.now) {
    if (player.replica == 0) record_wait(player, kind);
    player.now = until;
  }
  player.begun = false;
  player.next = call + 1;
  return true;
}

/// The part of a wait in which an awaited flight was under way is exposed communication; the rest
/// is idle time.
template <class Network, class Sink>
void StepExecutor<Network, Sink>::record_wait(const Player& player, SpanKind kind) {
  awaited_.clear();
  Flight scratch;
  for (const Instruction* call = player.next;; ++call) {
    if (call->moves()) awaited_.push_back(awaited_flight(player, *call, scratch));
    if (!call->more) break;
  }
  if (awaited_.size() > 1) {
    std::sort(awaited_.begin(), awaited_.end(), [](const Flight& a, const Flight& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
  }
  Seconds covered = player.now;
  for (const Flight& flight : awaited_) {
    if (flight.end <= covered) continue;
    sink_.span(player.rank, kind, std::max(flight.begin, covered), flight.end);
    covered = flight.end;
  }
}

/// The gradient norm: one scalar over everybody.
template <class Network, class Sink>
bool StepExecutor<Network, Sink>::reach_norm(std::size_t number) {
  Player& player = players_[number];
  if (!player.begun) {
    player.begun = true;
    norm_.begin = std::max(norm_.begin, player.now);
    if (++num_at_norm_ == players_.size()) {
      norm_.end = network_.timer(norm_.begin, plan_.grad_norm_time, token(TokenKind::grad_norm, 0));
      if (is_known(norm_.end)) {
        for (std::size_t other = 0; other < players_.size(); ++other) {
          if (other != number) wake(other);
        }
      }
    }
  }
  if (!is_known(norm_.end)) return false;
  player.begun = false;
  player.now = norm_.end;
  return true;
}

template <class Network, class Sink>
std::size_t StepExecutor<Network, Sink>::group_number(const Player& player, Sync sync,
                                                      Stage stage) const {
  const auto lane = static_cast<std::size_t>(plan_.replicas[player.replica].lane);
  return plan_.collective_number(sync, num_lanes_, lane, stage);
}

template <class Network, class Sink>
const CollectiveShare& StepExecutor<Network, Sink>::share(const Player& player, Sync sync,
                                                          Stage stage) const {
  return plan_.replicas[player.replica].share(
      sync, player.rank.index() * num_chunks_ + chunk_on(schedule(), player.rank, stage).index());
}

template <class Network, class Sink>
std::uint32_t& StepExecutor<Network, Sink>::num_ready(std::size_t number, Sync sync, Stage stage) {
  const Chunk chunk = chunk_on(schedule(), players_[number].rank, stage);
  return num_ready_[(number * kNumSyncs + static_cast<std::size_t>(sync)) * num_chunks_ +
                    chunk.index()];
}

/// The player's part of a bucket is ready at `time`; buckets come in order, and once.
template <class Network, class Sink>
void StepExecutor<Network, Sink>::declare(std::size_t number, Sync sync, Stage stage,
                                          std::size_t bucket, Seconds time) {
  const std::size_t group_of_player = group_number(players_[number], sync, stage);
  Group& group = groups_[group_of_player];
  std::uint32_t& declared = num_ready(number, sync, stage);
  if (bucket < declared || bucket >= group.ready.size()) return;
  PIPELEDGER_CHECK(bucket == declared, "bucket {} after {}", bucket, declared);
  ++declared;
  ++group.num_members_ready[bucket];
  group.ready[bucket] = std::max(group.ready[bucket], time);
  start_buckets(group_of_player);
}

/// All of the player's part of a collective is ready.
template <class Network, class Sink>
void StepExecutor<Network, Sink>::join(std::size_t number, Sync sync, Stage stage) {
  const std::size_t num_buckets = groups_[group_number(players_[number], sync, stage)].ready.size();
  for (std::size_t bucket = num_ready(number, sync, stage); bucket < num_buckets; ++bucket) {
    declare(number, sync, stage, bucket, players_[number].now);
  }
}

template <class Network, class Sink>
void StepExecutor<Network, Sink>::start_buckets(std::size_t number) {
  Group& group = groups_[number];
  const std::size_t num_members = members(number).size();
  while (!group.busy && group.num_done < group.ready.size() &&
         group.num_members_ready[group.num_done] == num_members) {
    const Seconds begin = std::max(group.bucket_end, group.ready[group.num_done]);
    group.busy = true;
    if (group.num_done == 0) group.flight.begin = begin;
    const auto sync = static_cast<Sync>(number / members_.size());
    const Stage stage{static_cast<int>(number % num_stages_)};
    const Seconds latency = share(players_[members(number).front()], sync, stage).latency;
    const Seconds starts = network_.timer(begin, latency, token(TokenKind::bucket_starts, number));
    if (!is_known(starts) || !start_flows(number, starts)) return;
  }
}

/// True when the whole bucket's end is known, and booked.
template <class Network, class Sink>
bool StepExecutor<Network, Sink>::start_flows(std::size_t number, Seconds begin) {
  Group& group = groups_[number];
  const auto sync = static_cast<Sync>(number / members_.size());
  const Stage stage{static_cast<int>(number % num_stages_)};
  const auto num_done = static_cast<std::int64_t>(group.num_done);
  const bool is_first = group.routes.empty();
  std::size_t num_flows = 0;
  group.num_flows_left = 0;
  for (const std::uint32_t member : members(number)) {
    const CollectiveShare& own = share(players_[member], sync, stage);
    for (const CollectiveShare::Flow& flow : own.flows) {
      if (is_first) group.routes.push_back(network_.route(flow.ends));
      // Equal parts that add up to the whole.
      const Bytes part =
          flow.bytes * (num_done + 1) / own.num_buckets - flow.bytes * num_done / own.num_buckets;
      const Seconds end = network_.flow(group.routes[num_flows++], part, begin,
                                        token(TokenKind::bucket_flow, number));
      if (is_known(end)) {
        group.bucket_end = std::max(group.bucket_end, end);
      } else {
        ++group.num_flows_left;
      }
    }
  }
  if (group.num_flows_left > 0) return false;
  bucket_ended(number);
  return true;
}

template <class Network, class Sink>
void StepExecutor<Network, Sink>::bucket_ended(std::size_t number) {
  Group& group = groups_[number];
  group.busy = false;
  const bool is_first = group.num_done == 0;
  const bool is_last = ++group.num_done == group.ready.size();
  if (is_first) group.first_bucket_end = group.bucket_end;
  if (is_last) group.flight.end = group.bucket_end;
  if (!is_first && !is_last) return;
  for (const std::uint32_t member : members(number)) {
    wake_if_awaiting(member, flights_.messages.size() + number);
  }
}

}  // namespace pipeledger
