#include "sim/play.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <set>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/problem.h"
#include "sim/recorder.h"

namespace pipeledger {
namespace {

constexpr std::size_t kNumChannels = 4;
constexpr std::size_t kNumSyncs = 2;
constexpr std::size_t kOpsPerReport = 4096;

/// What an engine token says; its low 32 bits number a player, a wire or a group.
enum class TokenKind : std::uint32_t {
  op,
  optimizer,
  grad_norm,
  wire,
  bucket_ready,
  bucket_starts,
  bucket_flow
};

Engine::Token token(TokenKind kind, std::size_t number) {
  return (static_cast<Engine::Token>(kind) << 32) | number;
}

/// One message between two players. Small, since there is one a microbatch and boundary.
struct Wire {
  std::uint32_t from = 0, to = 0;  // players
  Engine::Route route = 0;         // of a flow
  std::uint32_t transfer = 0;      // where the recorder keeps it
  Message message{};
  bool tied_embedding = false;  // not between stages: the sum of a tied embedding's gradients
  bool sent = false;            // the sender has posted it
  bool expected = false;        // the receiver has posted it
  bool done = false;
  Seconds begin{}, end{};
};

enum class Sync { grad, param };

/// One collective of the data-parallel group of a lane and stage.
struct Group {
  std::vector<std::size_t> num_ready;  // replicas that have their part of a bucket, by bucket
  std::size_t num_done = 0;            // buckets
  std::size_t num_flows_left = 0;      // of the bucket that is on its way
  bool busy = false;
  bool done = false;
  Seconds begin{}, end{};
  std::size_t transfer = 0;  // where the recorder keeps it
};

/// How far a player is with the end of its step.
enum class Closing { grad_sync, tied_embedding, grad_norm, optimizer, param_sync };

/// One rank of one replica.
struct Player {
  enum class State { ready, busy, awaiting_wires, awaiting_groups, at_barrier, done };

  std::size_t replica = 0;
  Rank rank{};
  State state = State::ready;
  std::size_t next = 0;                    // position in its program
  Seconds since{};                         // when it began what it does, or to wait
  bool sync_enabled = false;               // outside no_sync
  std::vector<std::size_t> wires, groups;  // awaited
  std::array<std::deque<std::size_t>, kNumChannels> posted;  // asynchronous wires, oldest first
  std::vector<bool> forward_seen, backward_seen;             // by chunk
  /// Buckets that are ready, by chunk.
  std::array<std::vector<std::size_t>, kNumSyncs> num_ready;
  bool awaits_first_bucket = false;  // of its groups; false: all
  Closing closing = Closing::grad_sync;
};

class Play {
 public:
  Play(const Plan& plan, Engine& engine, const Progress& progress);
  StepTrace run();

 private:
  void make_players();
  void make_wires();
  Engine::Route route(const Wire& wire) const;
  Bytes bytes(const Wire& wire) const {
    return wire.tied_embedding ? plan_.tied_embedding_bytes : plan_.message_bytes;
  }

  const Schedule& schedule() const { return plan_.schedule; }
  std::size_t num_ranks() const { return static_cast<std::size_t>(schedule().num_ranks); }
  std::size_t num_stages() const { return static_cast<std::size_t>(schedule().num_stages()); }
  std::size_t num_microbatches() const {
    return static_cast<std::size_t>(schedule().num_microbatches);
  }
  Stage stage_of(const Player& player, int chunk) const {
    return schedule().stage_of(player.rank, Chunk{chunk});
  }
  bool is_last(Stage stage) const { return stage.index() + 1 == num_stages(); }
  const OpProfile& profile(const Op& op) const {
    const StageProfile& stage = plan_.stages[op.stage.index()];
    return op.kind == OpKind::F ? stage.forward : stage.backward;
  }
  std::size_t gpu(std::size_t player) const {
    return plan_.replicas[players_[player].replica].gpus[players_[player].rank.index()];
  }

  void on_end(Engine::Token ended);
  void wake(std::size_t number);
  void drain();
  void advance(std::size_t number);
  bool execute(std::size_t number, const Instruction& instruction);

  void op_begins(std::size_t number, const Op& op);
  void op_ended(std::size_t number);
  void book_result(const Player& player, const Op& op);

  std::size_t wire_number(std::size_t replica, const Message& message) const;
  std::size_t tied_wire(std::size_t replica, bool from_first) const;
  void post(std::size_t number, const Exchange& exchange);
  void send(std::size_t wire);
  void expect(std::size_t wire);
  void start_wire(std::size_t wire);
  void wire_ended(std::size_t wire);
  bool await_wires(std::size_t number, SpanKind kind);
  bool wait(std::size_t number, Channel channel);

  std::size_t group_number(const Player& player, Sync sync, Stage stage) const;
  const CollectiveShare& share(const Player& player, Sync sync, Stage stage) const;
  /// Which collective a group's number stands for.
  struct GroupPlace {
    Sync sync;
    std::size_t lane;
    Stage stage;
  };
  GroupPlace place_of(std::size_t group) const;
  void join(std::size_t number, Sync sync, Chunk chunk);
  void join_all(std::size_t number, Sync sync);
  void declare_ready(std::size_t number, Sync sync, Chunk chunk, std::size_t num_ready);
  bool reduces_meanwhile(const Player& player, const Op& op) const;
  void bucket_ready(std::size_t number);
  void start_bucket(std::size_t group);
  void bucket_starts(std::size_t group);
  void bucket_ended(std::size_t group);
  bool has_its_groups(const Player& player) const;
  bool await_groups(std::size_t number, SpanKind kind);
  bool await_all_parameters(std::size_t number, const Op& op);

  bool close(std::size_t number);
  bool sum_tied_embeddings(std::size_t number);
  void reach_barrier(std::size_t number);
  void step_optimizer(std::size_t number);

  void book(const Player& player, Category category, Bytes delta);
  void record_waits(const Player& player, SpanKind kind);
  [[noreturn]] void report_deadlock() const;

  const Plan& plan_;
  Engine& engine_;
  const Progress& progress_;
  Recorder recorder_;
  std::vector<Player> players_;  // by replica, then rank
  std::vector<Wire> wires_;      // by replica, payload, stage, microbatch; then the tied ones
  std::vector<Group> groups_;    // by sync, lane, stage
  std::vector<std::vector<std::size_t>> lanes_;  // replicas of each
  std::deque<std::size_t> ready_;
  std::vector<std::pair<Seconds, Seconds>> flights_;  // of what a player awaited
  std::size_t num_at_barrier_ = 0;
  std::size_t num_ops_done_ = 0;
};

Play::Play(const Plan& plan, Engine& engine, const Progress& progress)
    : plan_(plan), engine_(engine), progress_(progress), recorder_(plan, engine.now()) {
  make_players();
  make_wires();
  groups_.resize(kNumSyncs * lanes_.size() * num_stages());
}

void Play::make_players() {
  const auto num_chunks = static_cast<std::size_t>(schedule().num_chunks);
  for (std::size_t replica = 0; replica < plan_.replicas.size(); ++replica) {
    const auto lane = static_cast<std::size_t>(plan_.replicas[replica].lane);
    if (lanes_.size() <= lane) lanes_.resize(lane + 1);
    lanes_[lane].push_back(replica);
    for (int rank = 0; rank < schedule().num_ranks; ++rank) {
      Player player;
      player.replica = replica;
      player.rank = Rank{rank};
      player.since = engine_.now();
      player.forward_seen.resize(num_chunks);
      player.backward_seen.resize(num_chunks);
      for (auto& num_ready : player.num_ready) num_ready.resize(num_chunks);
      players_.push_back(std::move(player));
    }
  }
}

void Play::make_wires() {
  const auto number = [&](std::size_t replica, Rank rank) {
    return static_cast<std::uint32_t>(replica * num_ranks() + rank.index());
  };
  wires_.reserve(plan_.replicas.size() * (2 * num_stages() * num_microbatches() + 2));
  for (std::size_t replica = 0; replica < plan_.replicas.size(); ++replica) {
    for (const Payload payload : {Payload::activation, Payload::gradient}) {
      for (int stage = 0; stage < schedule().num_stages(); ++stage) {
        const int to = payload == Payload::activation ? stage + 1 : stage - 1;
        const bool exists = to >= 0 && to < schedule().num_stages();
        Wire wire{.from = number(replica, schedule().rank_of(Stage{stage}))};
        wire.to = exists ? number(replica, schedule().rank_of(Stage{to})) : wire.from;
        if (wire.from != wire.to && !plan_.hop_latency) wire.route = route(wire);
        for (int microbatch = 0; microbatch < schedule().num_microbatches; ++microbatch) {
          wire.message = {payload, Microbatch{microbatch}, Stage{stage}};
          wires_.push_back(wire);
        }
      }
    }
  }
  for (std::size_t replica = 0; replica < plan_.replicas.size(); ++replica) {
    const std::uint32_t first = number(replica, Rank{0});
    const std::uint32_t last = number(replica, Rank{schedule().num_ranks - 1});
    for (const auto& [from, to] : {std::pair(first, last), std::pair(last, first)}) {
      Wire wire{.from = from, .to = to, .tied_embedding = true};
      if (from != to && bytes(wire) > Bytes{}) wire.route = route(wire);
      wires_.push_back(wire);
    }
  }
}

Engine::Route Play::route(const Wire& wire) const {
  return engine_.route({gpu(wire.from), gpu(wire.to)});
}

StepTrace Play::run() {
  for (std::size_t number = 0; number < players_.size(); ++number) {
    const Program& program = plan_.programs[players_[number].rank.index()];
    const bool gathers_by_calls = std::any_of(program.begin(), program.end(), [](const auto& call) {
      return call.action == Action::param_sync;
    });
    if (plan_.overlap_param_gather && !gathers_by_calls) join_all(number, Sync::param);
    ready_.push_back(number);
  }
  drain();
  engine_.run([this](Engine::Token ended) {
    on_end(ended);
    drain();
  });
  Seconds end{};
  for (const Player& player : players_) {
    if (player.state != Player::State::done) report_deadlock();
    end = std::max(end, player.since);
  }
  return recorder_.take(end);
}

void Play::on_end(Engine::Token ended) {
  const auto number = static_cast<std::size_t>(ended & 0xffffffffu);
  switch (static_cast<TokenKind>(ended >> 32)) {
    case TokenKind::op:
      return op_ended(number);
    case TokenKind::optimizer:
      return wake(number);
    case TokenKind::grad_norm:
      for (std::size_t player = 0; player < players_.size(); ++player) wake(player);
      return;
    case TokenKind::wire:
      return wire_ended(number);
    case TokenKind::bucket_ready:
      return bucket_ready(number);
    case TokenKind::bucket_starts:
      return bucket_starts(number);
    case TokenKind::bucket_flow:
      if (--groups_[number].num_flows_left == 0) bucket_ended(number);
      return;
  }
}

void Play::wake(std::size_t number) {
  players_[number].state = Player::State::ready;
  ready_.push_back(number);
}

/// Players run in the order in which they became ready, each until it waits: a queue and no
/// recursion, however many messages take no time.
void Play::drain() {
  while (!ready_.empty()) {
    const std::size_t number = ready_.front();
    ready_.pop_front();
    advance(number);
  }
}

void Play::advance(std::size_t number) {
  Player& player = players_[number];
  const Program& program = plan_.programs[player.rank.index()];
  while (player.next < program.size()) {
    if (!execute(number, program[player.next])) return;
    ++player.next;
  }
  player.state = Player::State::done;
  player.since = engine_.now();
}

/// True when the instruction is over; false when it waits, and will be asked again.
bool Play::execute(std::size_t number, const Instruction& instruction) {
  Player& player = players_[number];
  switch (instruction.action) {
    case Action::compute:
      if (!await_all_parameters(number, instruction.op)) return false;
      op_begins(number, instruction.op);
      return false;
    case Action::communicate:
      if (player.wires.empty()) post(number, instruction.exchange);
      return await_wires(number, SpanKind::exposed_p2p);
    case Action::wait:
      return wait(number, instruction.channel);
    case Action::free_output:
      // The last stage's output is the loss, a scalar.
      if (!is_last(instruction.message.stage)) {
        book(player, Category::p2p_buffers, -plan_.message_bytes);
      }
      return true;
    case Action::enter_no_sync:
      player.sync_enabled = false;
      return true;
    case Action::exit_no_sync:
      player.sync_enabled = true;
      return true;
    case Action::first_microbatch:
      if (!plan_.overlap_param_gather) return true;
      if (player.groups.empty()) {
        player.groups = {
            group_number(player, Sync::param, stage_of(player, instruction.chunk.value))};
        player.awaits_first_bucket = true;
        player.since = engine_.now();
      }
      return await_groups(number, SpanKind::exposed_param_sync);
    case Action::grad_sync:
      join(number, Sync::grad, instruction.chunk);
      return true;
    case Action::param_sync:
      join(number, Sync::param, instruction.chunk);
      return true;
    case Action::finalize_model_grads:
      return close(number);
  }
  return true;
}

void Play::op_begins(std::size_t number, const Op& op) {
  Player& player = players_[number];
  player.state = Player::State::busy;
  player.since = engine_.now();
  if (player.replica == 0) {
    // The message that came in becomes the stage's input, an activation of the ledger.
    if (op.kind == OpKind::F && op.stage.value > 0) {
      book(player, Category::p2p_buffers, -plan_.message_bytes);
    }
    const bool first = !player.backward_seen[schedule().chunk_of(op.stage).index()];
    recorder_.op_begins(player.rank, profile(op), player.since, first);
  }
  engine_.start_timer(profile(op).duration, token(TokenKind::op, number));
  if (op.kind == OpKind::F) player.forward_seen[schedule().chunk_of(op.stage).index()] = true;
  if (reduces_meanwhile(player, op)) {
    const int num_buckets = share(player, Sync::grad, op.stage).num_buckets;
    for (int bucket = 1; bucket < num_buckets; ++bucket) {
      engine_.start_timer(profile(op).duration * (static_cast<double>(bucket) / num_buckets),
                          token(TokenKind::bucket_ready, number));
    }
  }
}

/// The hooks of a chunk's last backward reduce its gradients, bucket by bucket.
bool Play::reduces_meanwhile(const Player& player, const Op& op) const {
  return op.kind == OpKind::B && op.microbatch.index() + 1 == num_microbatches() &&
         player.sync_enabled && plan_.overlap_grad_reduce;
}

void Play::op_ended(std::size_t number) {
  Player& player = players_[number];
  const Op op = plan_.programs[player.rank.index()][player.next].op;
  const Chunk chunk = schedule().chunk_of(op.stage);
  if (player.replica == 0) {
    recorder_.op_ends(player.rank, op, profile(op), player.since, engine_.now(),
                      !player.backward_seen[chunk.index()]);
    book_result(player, op);
  }
  const bool backward = op.kind == OpKind::B;
  if (backward) player.backward_seen[chunk.index()] = true;
  if (reduces_meanwhile(player, op)) join(number, Sync::grad, chunk);
  if (++num_ops_done_ % kOpsPerReport == 0 && progress_) {
    const std::size_t num_ops = 2 * num_stages() * num_microbatches() * plan_.replicas.size();
    progress_(static_cast<double>(num_ops_done_) / static_cast<double>(num_ops));
  }
  ++player.next;
  wake(number);
}

/// The output of a forward waits to be sent. The gradient a backward received is used up, and the
/// gradient of its input takes its place.
void Play::book_result(const Player& player, const Op& op) {
  if (op.kind == OpKind::F) {
    if (!is_last(op.stage)) book(player, Category::p2p_buffers, plan_.message_bytes);
    return;
  }
  if (!is_last(op.stage)) {
    book(player, Category::p2p_buffers, -plan_.message_bytes);
    const bool output_was_kept = !plan_.hop_latency && !plan_.deallocate_pipeline_outputs;
    if (output_was_kept) book(player, Category::p2p_buffers, -plan_.message_bytes);
  }
  if (op.stage.value > 0) book(player, Category::p2p_buffers, plan_.message_bytes);
}

std::size_t Play::wire_number(std::size_t replica, const Message& message) const {
  const std::size_t payload = message.payload == Payload::activation ? 0 : 1;
  return ((replica * 2 + payload) * num_stages() + message.stage.index()) * num_microbatches() +
         message.microbatch.index();
}

std::size_t Play::tied_wire(std::size_t replica, bool from_first) const {
  return wires_.size() - 2 * (plan_.replicas.size() - replica) + (from_first ? 0 : 1);
}

void Play::post(std::size_t number, const Exchange& exchange) {
  Player& player = players_[number];
  player.since = engine_.now();
  const std::array parts = {&exchange.send_next, &exchange.recv_prev, &exchange.send_prev,
                            &exchange.recv_next};
  for (std::size_t channel = 0; channel < kNumChannels; ++channel) {
    const std::optional<Message>& message = *parts[channel];
    if (!message) continue;
    const bool sends = channel == static_cast<std::size_t>(Channel::send_next) ||
                       channel == static_cast<std::size_t>(Channel::send_prev);
    const std::size_t wire = wire_number(player.replica, *message);
    if (exchange.blocking) {
      player.wires.push_back(wire);
    } else {
      player.posted[channel].push_back(wire);
    }
    sends ? send(wire) : expect(wire);
  }
}

void Play::send(std::size_t number) {
  Wire& wire = wires_[number];
  wire.sent = true;
  // A free send needs nobody to expect it.
  const bool free = plan_.hop_latency && !wire.tied_embedding;
  if (wire.expected || free) start_wire(number);
}

void Play::expect(std::size_t number) {
  Wire& wire = wires_[number];
  wire.expected = true;
  if (plan_.hop_latency && !wire.tied_embedding) return;  // its buffer is booked on arrival
  if (!wire.tied_embedding) book(players_[wire.to], Category::p2p_buffers, plan_.message_bytes);
  if (wire.sent) start_wire(number);
}

void Play::start_wire(std::size_t number) {
  Wire& wire = wires_[number];
  wire.begin = engine_.now();
  const Player& sender = players_[wire.from];
  if (sender.replica == 0) {
    const bool activation = wire.message.payload == Payload::activation;
    wire.transfer = static_cast<std::uint32_t>(recorder_.transfer_begins(
        {.kind = wire.tied_embedding ? TransferKind::grad_sync
                 : activation        ? TransferKind::activation
                                     : TransferKind::gradient,
         .from = sender.rank,
         .to = players_[wire.to].rank,
         .bytes = bytes(wire).value(),
         .stage = wire.tied_embedding ? Stage{-1} : wire.message.stage,
         .microbatch = wire.tied_embedding ? Microbatch{-1} : wire.message.microbatch},
        wire.begin));
  }
  if (!plan_.hop_latency || wire.tied_embedding) {
    engine_.start_flow(wire.route, bytes(wire), token(TokenKind::wire, number));
  } else if (*plan_.hop_latency > Seconds{}) {
    engine_.start_timer(*plan_.hop_latency, token(TokenKind::wire, number));
  } else {
    wire_ended(number);
  }
}

void Play::wire_ended(std::size_t number) {
  Wire& wire = wires_[number];
  wire.done = true;
  wire.end = engine_.now();
  const bool activation = wire.message.payload == Payload::activation;
  if (!wire.tied_embedding) {
    if (plan_.hop_latency) book(players_[wire.to], Category::p2p_buffers, plan_.message_bytes);
    // Activations that Megatron sends are freed by an instruction of their own.
    if (plan_.hop_latency || !activation) {
      book(players_[wire.from], Category::p2p_buffers, -plan_.message_bytes);
    }
  }
  if (players_[wire.from].replica == 0) recorder_.transfer_ends(wire.transfer, wire.end);
  for (const std::uint32_t end : {wire.from, wire.to}) {
    const Player& player = players_[end];
    const auto is_done = [&](std::size_t awaited) { return wires_[awaited].done; };
    if (player.state == Player::State::awaiting_wires &&
        std::all_of(player.wires.begin(), player.wires.end(), is_done)) {
      wake(end);
    }
  }
}

bool Play::await_wires(std::size_t number, SpanKind kind) {
  Player& player = players_[number];
  for (const std::size_t wire : player.wires) {
    if (wires_[wire].done) continue;
    player.state = Player::State::awaiting_wires;
    return false;
  }
  flights_.clear();
  for (const std::size_t wire : player.wires) {
    flights_.emplace_back(wires_[wire].begin, wires_[wire].end);
  }
  record_waits(player, kind);
  player.wires.clear();
  return true;
}

bool Play::wait(std::size_t number, Channel channel) {
  Player& player = players_[number];
  auto& posted = player.posted[static_cast<std::size_t>(channel)];
  if (player.wires.empty()) {
    player.since = engine_.now();
    player.wires = {posted.front()};
  }
  if (!await_wires(number, SpanKind::exposed_p2p)) return false;
  posted.pop_front();
  return true;
}

std::size_t Play::group_number(const Player& player, Sync sync, Stage stage) const {
  const auto lane = static_cast<std::size_t>(plan_.replicas[player.replica].lane);
  return (static_cast<std::size_t>(sync) * lanes_.size() + lane) * num_stages() + stage.index();
}

const CollectiveShare& Play::share(const Player& player, Sync sync, Stage stage) const {
  const Replica& replica = plan_.replicas[player.replica];
  return (sync == Sync::grad ? replica.grad_sync : replica.param_sync)[stage.index()];
}

/// All of the player's part of a collective is ready.
void Play::join(std::size_t number, Sync sync, Chunk chunk) {
  const Player& player = players_[number];
  const CollectiveShare& own = share(player, sync, stage_of(player, chunk.value));
  declare_ready(number, sync, chunk, static_cast<std::size_t>(own.num_buckets));
}

/// The player's first `num_ready` buckets are ready. A bucket goes when all replicas of the lane
/// have it and the one before is done; where there is nothing to send, nobody waits for anybody.
void Play::declare_ready(std::size_t number, Sync sync, Chunk chunk, std::size_t num_ready) {
  Player& player = players_[number];
  const Stage stage = stage_of(player, chunk.value);
  const std::size_t group = group_number(player, sync, stage);
  const CollectiveShare& own = share(player, sync, stage);
  if (own.empty()) {
    groups_[group].done = true;
    return;
  }
  groups_[group].num_ready.resize(static_cast<std::size_t>(own.num_buckets));
  std::size_t& ready = player.num_ready[static_cast<std::size_t>(sync)][chunk.index()];
  for (; ready < num_ready; ++ready) ++groups_[group].num_ready[ready];
  start_bucket(group);
}

/// Another part of the last backward of the player's first chunk is over.
void Play::bucket_ready(std::size_t number) {
  constexpr Chunk kFirst{0};  // Megatron gives later chunks one bucket
  const std::size_t ready =
      players_[number].num_ready[static_cast<std::size_t>(Sync::grad)][kFirst.index()];
  declare_ready(number, Sync::grad, kFirst, ready + 1);
}

void Play::start_bucket(std::size_t number) {
  Group& group = groups_[number];
  const GroupPlace place = place_of(number);
  const auto& lane = lanes_[place.lane];
  if (group.busy || group.num_done == group.num_ready.size() ||
      group.num_ready[group.num_done] < lane.size()) {
    return;
  }
  const Player& player =
      players_[lane.front() * num_ranks() + schedule().rank_of(place.stage).index()];
  const CollectiveShare& own = share(player, place.sync, place.stage);
  group.busy = true;
  if (group.num_done == 0) {
    group.begin = engine_.now();
    if (player.replica == 0) {
      group.transfer = recorder_.transfer_begins(
          {.kind = place.sync == Sync::grad ? TransferKind::grad_sync : TransferKind::param_sync,
           .from = player.rank,
           .to = player.rank,
           .bytes = own.bytes.value(),
           .stage = place.stage},
          group.begin);
    }
  }
  engine_.start_timer(own.latency, token(TokenKind::bucket_starts, number));
}

void Play::join_all(std::size_t number, Sync sync) {
  for (int chunk = 0; chunk < schedule().num_chunks; ++chunk) join(number, sync, Chunk{chunk});
}

void Play::bucket_starts(std::size_t number) {
  const GroupPlace place = place_of(number);
  const auto num_done = static_cast<std::int64_t>(groups_[number].num_done);
  std::size_t num_flows = 0;
  for (const std::size_t replica : lanes_[place.lane]) {
    const Player& player =
        players_[replica * num_ranks() + schedule().rank_of(place.stage).index()];
    const CollectiveShare& own = share(player, place.sync, place.stage);
    num_flows += own.flows.size();
    for (const auto& flow : own.flows) {
      // Equal parts that add up to the whole.
      const Bytes part =
          flow.bytes * (num_done + 1) / own.num_buckets - flow.bytes * num_done / own.num_buckets;
      engine_.start_flow(engine_.route(flow.ends), part, token(TokenKind::bucket_flow, number));
    }
  }
  groups_[number].num_flows_left = num_flows;
}

void Play::bucket_ended(std::size_t number) {
  Group& group = groups_[number];
  const GroupPlace place = place_of(number);
  group.busy = false;
  group.done = ++group.num_done == group.num_ready.size();
  group.end = engine_.now();
  for (const std::size_t replica : lanes_[place.lane]) {
    const std::size_t member = replica * num_ranks() + schedule().rank_of(place.stage).index();
    if (group.done && replica == 0) recorder_.transfer_ends(group.transfer, group.end);
    const Player& player = players_[member];
    if (player.state == Player::State::awaiting_groups && has_its_groups(player)) wake(member);
  }
  start_bucket(number);
}

bool Play::has_its_groups(const Player& player) const {
  return std::all_of(player.groups.begin(), player.groups.end(), [&](std::size_t awaited) {
    const Group& group = groups_[awaited];
    return group.done || (player.awaits_first_bucket && group.num_done > 0);
  });
}

Play::GroupPlace Play::place_of(std::size_t number) const {
  return {.sync = number < lanes_.size() * num_stages() ? Sync::grad : Sync::param,
          .lane = number / num_stages() % lanes_.size(),
          .stage = Stage{static_cast<int>(number % num_stages())}};
}

/// The first forward of a chunk needs its first parameters, the second all of them.
bool Play::await_all_parameters(std::size_t number, const Op& op) {
  Player& player = players_[number];
  if (!plan_.overlap_param_gather || op.kind != OpKind::F) return true;
  if (player.groups.empty()) {
    const bool first = !player.forward_seen[schedule().chunk_of(op.stage).index()];
    const std::size_t group = group_number(player, Sync::param, op.stage);
    if (first || groups_[group].done) return true;
    player.groups = {group};
    player.since = engine_.now();
  }
  return await_groups(number, SpanKind::exposed_param_sync);
}

bool Play::await_groups(std::size_t number, SpanKind kind) {
  Player& player = players_[number];
  if (!has_its_groups(player)) {
    player.state = Player::State::awaiting_groups;
    return false;
  }
  flights_.clear();
  for (const std::size_t group : player.groups) {
    flights_.emplace_back(groups_[group].begin, groups_[group].end);
  }
  record_waits(player, kind);
  player.groups.clear();
  player.awaits_first_bucket = false;
  return true;
}

/// The end of the step: reduce, sum tied embeddings, gradient norm over everybody, optimizer,
/// gather. Each part may wait and is asked again.
bool Play::close(std::size_t number) {
  Player& player = players_[number];
  const auto await_all = [&](Sync sync, SpanKind kind) {
    if (player.groups.empty()) {
      join_all(number, sync);
      player.since = engine_.now();
      for (int chunk = 0; chunk < schedule().num_chunks; ++chunk) {
        player.groups.push_back(group_number(player, sync, stage_of(player, chunk)));
      }
    }
    return await_groups(number, kind);
  };
  switch (player.closing) {
    case Closing::grad_sync:
      if (!await_all(Sync::grad, SpanKind::exposed_grad_sync)) return false;
      player.closing = Closing::tied_embedding;
      [[fallthrough]];
    case Closing::tied_embedding:
      if (!sum_tied_embeddings(number)) return false;
      player.closing = Closing::grad_norm;
      reach_barrier(number);
      return false;
    case Closing::grad_norm:
      player.closing = Closing::optimizer;
      step_optimizer(number);
      return false;
    case Closing::optimizer:
      if (player.replica == 0) {
        recorder_.span(player.rank, SpanKind::optimizer, player.since, engine_.now());
        recorder_.free_created_gradients(player.rank, engine_.now());
      }
      player.closing = Closing::param_sync;
      [[fallthrough]];
    case Closing::param_sync:
      return plan_.overlap_param_gather || await_all(Sync::param, SpanKind::exposed_param_sync);
  }
  return true;
}

bool Play::sum_tied_embeddings(std::size_t number) {
  Player& player = players_[number];
  const bool first = player.rank.value == 0;
  const bool last = player.rank.index() + 1 == num_ranks();
  if (plan_.tied_embedding_bytes == Bytes{} || first == last) return true;
  if (player.wires.empty()) {
    player.since = engine_.now();
    player.wires = {tied_wire(player.replica, first), tied_wire(player.replica, !first)};
    send(player.wires[0]);
    expect(player.wires[1]);
  }
  return await_wires(number, SpanKind::exposed_grad_sync);
}

void Play::reach_barrier(std::size_t number) {
  players_[number].state = Player::State::at_barrier;
  if (++num_at_barrier_ == players_.size()) {
    engine_.start_timer(plan_.grad_norm_time, token(TokenKind::grad_norm, 0));
  }
}

void Play::step_optimizer(std::size_t number) {
  Player& player = players_[number];
  player.state = Player::State::busy;
  player.since = engine_.now();
  engine_.start_timer(plan_.ranks[player.rank.index()].optimizer_time,
                      token(TokenKind::optimizer, number));
}

void Play::book(const Player& player, Category category, Bytes delta) {
  if (player.replica != 0) return;
  if (category == Category::p2p_buffers && !plan_.book_p2p_buffers) return;
  recorder_.memory(player.rank, category, delta, engine_.now());
}

/// The part of a wait in which an awaited transfer (flights_) was under way is exposed
/// communication; the rest is idle time.
void Play::record_waits(const Player& player, SpanKind kind) {
  if (player.replica != 0 || player.since == engine_.now()) return;
  std::sort(flights_.begin(), flights_.end());
  Seconds covered = player.since;
  for (const auto& [begin, end] : flights_) {
    if (end <= covered) continue;
    recorder_.span(player.rank, kind, std::max(begin, covered), end);
    covered = end;
  }
}

void Play::report_deadlock() const {
  std::string text = "the ranks wait for each other:";
  for (const Player& player : players_) {
    if (player.replica != 0 || player.state == Player::State::done) continue;
    const Program& program = plan_.programs[player.rank.index()];
    std::string call = to_text(Program{program[player.next]}, schedule().num_ranks);
    call.pop_back();
    text += fmt::format("\n  rank {} after {} of {} calls: {}", player.rank.value, player.next,
                        program.size(), call);
  }
  throw RunError(text);
}

}  // namespace

StepTrace play(const Plan& plan, Engine& engine, const Progress& progress) {
  return Play(plan, engine, progress).run();
}

std::vector<GpuPair> gpu_pairs(const Plan& plan) {
  std::set<GpuPair> pairs;
  const Schedule& schedule = plan.schedule;
  for (const Replica& replica : plan.replicas) {
    const auto add = [&](std::size_t a, std::size_t b) {
      if (a == b) return;
      pairs.emplace(a, b);
      pairs.emplace(b, a);
    };
    for (int stage = 0; !plan.hop_latency && stage + 1 < schedule.num_stages(); ++stage) {
      add(replica.gpus[schedule.rank_of(Stage{stage}).index()],
          replica.gpus[schedule.rank_of(Stage{stage + 1}).index()]);
    }
    if (plan.tied_embedding_bytes > Bytes{}) add(replica.gpus.front(), replica.gpus.back());
    for (const auto* shares : {&replica.grad_sync, &replica.param_sync}) {
      for (const CollectiveShare& share : *shares) {
        for (const auto& flow : share.flows) pairs.insert(flow.ends);
      }
    }
  }
  return {pairs.begin(), pairs.end()};
}

}  // namespace pipeledger
