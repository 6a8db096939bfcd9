#include "sim/play.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/problem.h"
#include "sim/recorder.h"

namespace pipeledger {
namespace {

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
  std::uint32_t cause = 0;         // the sender's memory events before it was sent
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
  std::size_t next = 0;                            // position in its program
  Seconds since{};                                 // when it began what it does, or to wait
  bool sync_enabled = false;                       // outside no_sync
  std::vector<std::size_t> wires, groups;          // awaited
  std::vector<bool> forward_seen, gradients_seen;  // by chunk
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
    return wire.tied_embedding
               ? plan_.tied_embedding_bytes
               : plan_.slice_of_message(static_cast<std::size_t>(wire.message.slice));
  }

  const Schedule& schedule() const { return plan_.schedule; }
  std::size_t num_ranks() const { return static_cast<std::size_t>(schedule().num_ranks); }
  std::size_t num_stages() const { return static_cast<std::size_t>(schedule().num_stages()); }
  Stage stage_of(const Player& player, int chunk) const {
    return schedule().stage_of(player.rank, Chunk{chunk});
  }
  Chunk chunk_on(const Player& player, Stage stage) const {
    return pipeledger::chunk_on(schedule(), player.rank, stage);
  }
  std::size_t gpu(std::size_t player) const {
    return plan_.replicas[players_[player].replica].gpus[players_[player].rank.index()];
  }

  void on_end(Engine::Token ended);
  void wake(std::size_t number);
  void drain();
  void advance(std::size_t number);
  bool execute(std::size_t number, const Instruction& instruction);

  std::span<const Op> unit(const Player& player);
  const OpProfile& profile(std::span<const Op> unit);
  bool first_gradients(const Player& player, std::span<const Op> unit) const;
  void unit_begins(std::size_t number);
  void unit_ended(std::size_t number);

  std::size_t wire_number(std::size_t replica, const Message& message) const;
  std::size_t tied_wire(std::size_t replica, bool from_first) const;
  bool communicate(std::size_t number);
  void post(std::size_t number, const Instruction& instruction);
  void send(std::size_t wire);
  void expect(std::size_t wire);
  void start_wire(std::size_t wire);
  void wire_ended(std::size_t wire);
  bool await_wires(std::size_t number, SpanKind kind);
  bool wait(std::size_t number, const Message& message);

  std::size_t group_number(const Player& player, Sync sync, Stage stage) const;
  const CollectiveShare& share(const Player& player, Sync sync, Stage stage) const;
  /// Which collective a group's number stands for.
  struct GroupPlace {
    Sync sync;
    std::size_t lane;
    Stage stage;
  };
  GroupPlace place_of(std::size_t group) const;
  std::vector<std::size_t> members(const GroupPlace& place) const;
  void join(std::size_t number, Sync sync, Chunk chunk);
  void join_all(std::size_t number, Sync sync);
  void declare_ready(std::size_t number, Sync sync, Chunk chunk, std::size_t num_ready);
  bool reduces_meanwhile(const Player& player, const Op& op) const;
  void bucket_ready(std::size_t number, Chunk chunk);
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
  void book_meanwhile(const Player& player, Bytes delta, std::size_t cause);
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
  std::array<Op, 2> unit_;
  std::size_t num_at_barrier_ = 0;
  std::size_t num_ops_done_ = 0, num_ops_ = 0;
  PairProfiles pairs_;
};

Play::Play(const Plan& plan, Engine& engine, const Progress& progress)
    : plan_(plan), engine_(engine), progress_(progress), recorder_(plan, engine.now()) {
  make_players();
  make_wires();
  groups_.resize(kNumSyncs * lanes_.size() * num_stages());
  for (const auto& ops : schedule().ops) num_ops_ += ops.size() * plan_.replicas.size();
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
      player.gradients_seen.resize(num_chunks);
      for (auto& num_ready : player.num_ready) num_ready.resize(num_chunks);
      players_.push_back(std::move(player));
    }
  }
}

void Play::make_wires() {
  const auto number = [&](std::size_t replica, Rank rank) {
    return static_cast<std::uint32_t>(replica * num_ranks() + rank.index());
  };
  wires_.reserve(plan_.replicas.size() * (plan_.num_messages() + 2));
  for (std::size_t replica = 0; replica < plan_.replicas.size(); ++replica) {
    for (const Payload payload : {Payload::activation, Payload::gradient}) {
      for (int stage = 0; stage < schedule().num_stages(); ++stage) {
        const int to = payload == Payload::activation ? stage + 1 : stage - 1;
        const bool exists = to >= 0 && to < schedule().num_stages();
        Wire last{};
        for (int microbatch = 0; microbatch < schedule().num_microbatches; ++microbatch) {
          const Microbatch id{microbatch};
          Wire wire{.from = number(replica, schedule().rank_of(Stage{stage}, id))};
          wire.to = exists ? number(replica, schedule().rank_of(Stage{to}, id)) : wire.from;
          if (wire.from != wire.to && !plan_.hop_latency) {
            const bool same = last.from == wire.from && last.to == wire.to;
            wire.route = same ? last.route : route(wire);
          }
          last = wire;
          for (int slice = 0; slice < schedule().num_slices; ++slice) {
            wire.message = {payload, id, Stage{stage}, slice};
            wires_.push_back(wire);
          }
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
  const auto chunks = static_cast<std::size_t>(schedule().num_chunks);
  switch (static_cast<TokenKind>(ended >> 32)) {
    case TokenKind::op:
      return unit_ended(number);
    case TokenKind::optimizer:
      return wake(number);
    case TokenKind::grad_norm:
      for (std::size_t player = 0; player < players_.size(); ++player) wake(player);
      return;
    case TokenKind::wire:
      return wire_ended(number);
    case TokenKind::bucket_ready:
      return bucket_ready(number / chunks, Chunk{static_cast<int>(number % chunks)});
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
      if (!await_all_parameters(number, instruction.op())) return false;
      unit_begins(number);
      return false;
    case Action::communicate:
      return communicate(number);
    case Action::wait:
      return wait(number, instruction.message());
    case Action::keep_input:
      book(player, Category::p2p_buffers, plan_.slice_of_message(instruction.slice));
      return true;
    case Action::drop_input:
      book(player, Category::p2p_buffers, -plan_.slice_of_message(instruction.slice));
      return true;
    case Action::free_output:
      // The last stage's output is the loss, a scalar.
      if (instruction.stage.index() + 1 < num_stages()) {
        book(player, Category::p2p_buffers, -plan_.slice_of_message(instruction.slice));
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
        player.groups = {group_number(player, Sync::param, instruction.stage)};
        player.awaits_first_bucket = true;
        player.since = engine_.now();
      }
      return await_groups(number, SpanKind::exposed_param_sync);
    case Action::grad_sync:
      join(number, Sync::grad, chunk_on(player, instruction.stage));
      return true;
    case Action::param_sync:
      join(number, Sync::param, chunk_on(player, instruction.stage));
      return true;
    case Action::finalize_model_grads:
      return close(number);
  }
  return true;
}

/// The op that the player is at, or the pair of ops.
std::span<const Op> Play::unit(const Player& player) {
  const Program& program = plan_.programs[player.rank.index()];
  unit_[0] = program[player.next].op();
  const bool pair = program[player.next].more;
  if (pair) unit_[1] = program[player.next + 1].op();
  return {unit_.data(), pair ? std::size_t{2} : std::size_t{1}};
}

const OpProfile& Play::profile(std::span<const Op> unit) {
  if (unit.size() == 1) return plan_.profile(unit[0]);
  return pairs_.of(plan_, unit[0], unit[1]);
}

/// The unit's last op is the one that may make gradients.
bool Play::first_gradients(const Player& player, std::span<const Op> unit) const {
  return !player.gradients_seen[schedule().chunk_of(unit.back()).index()];
}

void Play::unit_begins(std::size_t number) {
  Player& player = players_[number];
  player.state = Player::State::busy;
  player.since = engine_.now();
  const std::span<const Op> ops = unit(player);
  const OpProfile& of_unit = profile(ops);
  if (player.replica == 0) {
    for (const Op& op : ops) {
      book(player, Category::p2p_buffers, -buffer_moves(plan_, op).freed_at_begin);
    }
    recorder_.unit_begins(player.rank, of_unit, player.since, first_gradients(player, ops));
  }
  engine_.start_timer(of_unit.duration, token(TokenKind::op, number));
  for (const Op& op : ops) {
    const Chunk chunk = schedule().chunk_of(op);
    if (op.kind == OpKind::F) player.forward_seen[chunk.index()] = true;
    if (!reduces_meanwhile(player, op)) continue;
    const int num_buckets = share(player, Sync::grad, op.stage).num_buckets;
    const auto chunks = static_cast<std::size_t>(schedule().num_chunks);
    for (int bucket = 1; bucket < num_buckets; ++bucket) {
      engine_.start_timer(of_unit.duration * (static_cast<double>(bucket) / num_buckets),
                          token(TokenKind::bucket_ready, number * chunks + chunk.index()));
    }
  }
}

/// The hooks of a backward outside no_sync reduce its chunk's gradients, bucket by bucket.
bool Play::reduces_meanwhile(const Player& player, const Op& op) const {
  return makes_gradients(op.kind) && player.sync_enabled && plan_.overlap_grad_reduce;
}

void Play::unit_ended(std::size_t number) {
  Player& player = players_[number];
  const std::span<const Op> ops = unit(player);
  if (player.replica == 0) {
    recorder_.unit_ends(player.rank, ops, profile(ops), player.since, engine_.now(),
                        first_gradients(player, ops));
    for (const Op& op : ops) {
      const BufferMoves moves = buffer_moves(plan_, op);
      book(player, Category::p2p_buffers, -moves.freed_at_end);
      book(player, Category::p2p_buffers, moves.born_at_end);
    }
  }
  for (const Op& op : ops) {
    const Chunk chunk = schedule().chunk_of(op);
    if (makes_gradients(op.kind)) player.gradients_seen[chunk.index()] = true;
    if (reduces_meanwhile(player, op)) join(number, Sync::grad, chunk);
    if (++num_ops_done_ % kOpsPerReport == 0 && progress_) {
      progress_(static_cast<double>(num_ops_done_) / static_cast<double>(num_ops_));
    }
  }
  player.next += ops.size();
  wake(number);
}

std::size_t Play::wire_number(std::size_t replica, const Message& message) const {
  return replica * plan_.num_messages() + plan_.number_of(message);
}

std::size_t Play::tied_wire(std::size_t replica, bool from_first) const {
  return wires_.size() - 2 * (plan_.replicas.size() - replica) + (from_first ? 0 : 1);
}

/// The whole call is posted, then awaited when it blocks.
bool Play::communicate(std::size_t number) {
  Player& player = players_[number];
  const Program& program = plan_.programs[player.rank.index()];
  if (player.wires.empty()) {
    player.since = engine_.now();
    for (; program[player.next].more; ++player.next) post(number, program[player.next]);
    post(number, program[player.next]);
  }
  return await_wires(number, SpanKind::exposed_p2p);
}

void Play::post(std::size_t number, const Instruction& instruction) {
  if (!instruction.moves()) return;
  Player& player = players_[number];
  const std::size_t wire = wire_number(player.replica, instruction.message());
  if (instruction.blocking) player.wires.push_back(wire);
  sends(instruction.channel) ? send(wire) : expect(wire);
}

void Play::send(std::size_t number) {
  Wire& wire = wires_[number];
  wire.sent = true;
  const Player& sender = players_[wire.from];
  if (sender.replica == 0) {
    wire.cause = static_cast<std::uint32_t>(recorder_.num_own_events(sender.rank));
  }
  // A free send needs nobody to expect it.
  const bool free = plan_.hop_latency && !wire.tied_embedding;
  if (wire.expected || free) start_wire(number);
}

void Play::expect(std::size_t number) {
  Wire& wire = wires_[number];
  wire.expected = true;
  if (plan_.hop_latency && !wire.tied_embedding) return;  // its buffer is booked on arrival
  if (!wire.tied_embedding) book(players_[wire.to], Category::p2p_buffers, bytes(wire));
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
    if (plan_.hop_latency) book_meanwhile(players_[wire.to], bytes(wire), 0);
    if (!activation || plan_.output_release == OutputRelease::as_sent) {
      book_meanwhile(players_[wire.from], -bytes(wire), wire.cause);
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

bool Play::wait(std::size_t number, const Message& message) {
  Player& player = players_[number];
  if (player.wires.empty()) {
    player.since = engine_.now();
    player.wires = {wire_number(player.replica, message)};
  }
  return await_wires(number, SpanKind::exposed_p2p);
}

std::size_t Play::group_number(const Player& player, Sync sync, Stage stage) const {
  const auto lane = static_cast<std::size_t>(plan_.replicas[player.replica].lane);
  return (static_cast<std::size_t>(sync) * lanes_.size() + lane) * num_stages() + stage.index();
}

const CollectiveShare& Play::share(const Player& player, Sync sync, Stage stage) const {
  const Replica& replica = plan_.replicas[player.replica];
  const auto chunks = static_cast<std::size_t>(schedule().num_chunks);
  return (sync == Sync::grad
              ? replica.grad_sync
              : replica.param_sync)[player.rank.index() * chunks + chunk_on(player, stage).index()];
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

/// Another part of a chunk's last backward is over.
void Play::bucket_ready(std::size_t number, Chunk chunk) {
  const std::size_t ready =
      players_[number].num_ready[static_cast<std::size_t>(Sync::grad)][chunk.index()];
  declare_ready(number, Sync::grad, chunk, ready + 1);
}

void Play::start_bucket(std::size_t number) {
  Group& group = groups_[number];
  const GroupPlace place = place_of(number);
  const std::vector<std::size_t> all = members(place);
  if (group.busy || group.num_done == group.num_ready.size() ||
      group.num_ready[group.num_done] < all.size()) {
    return;
  }
  const Player& player = players_[all.front()];
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
  for (const std::size_t member : members(place)) {
    const Player& player = players_[member];
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
  const std::vector<std::size_t> all = members(place);
  if (group.done && players_[all.front()].replica == 0) {
    recorder_.transfer_ends(group.transfer, group.end);
  }
  for (const std::size_t member : all) {
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

/// The players that hold the stage, in every replica of the lane.
std::vector<std::size_t> Play::members(const GroupPlace& place) const {
  std::vector<std::size_t> all;
  for (const std::size_t replica : lanes_[place.lane]) {
    for (const Home& home : homes(schedule(), place.stage)) {
      all.push_back(replica * num_ranks() + home.rank.index());
    }
  }
  return all;
}

/// The first forward of a chunk needs its first parameters, the second all of them.
bool Play::await_all_parameters(std::size_t number, const Op& op) {
  Player& player = players_[number];
  if (!plan_.overlap_param_gather || op.kind != OpKind::F) return true;
  if (player.groups.empty()) {
    const bool first = !player.forward_seen[schedule().chunk_of(op).index()];
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
        for (const auto& [kind, begin, end] :
             optimizer_spans(plan_.ranks[player.rank.index()], player.since, engine_.now())) {
          recorder_.span(player.rank, kind, begin, end);
        }
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
  engine_.start_timer(plan_.ranks[player.rank.index()].optimizer.total(),
                      token(TokenKind::optimizer, number));
}

void Play::book(const Player& player, Category category, Bytes delta) {
  if (player.replica != 0) return;
  if (category == Category::p2p_buffers && !plan_.book_p2p_buffers) return;
  recorder_.memory(player.rank, category, delta, engine_.now());
}

void Play::book_meanwhile(const Player& player, Bytes delta, std::size_t cause) {
  if (player.replica != 0 || !plan_.book_p2p_buffers) return;
  recorder_.buffer_meanwhile(player.rank, delta, engine_.now(), cause);
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
  std::vector<std::size_t> next;
  for (const Player& player : players_) {
    if (player.replica == 0) next.push_back(player.next);
  }
  throw_deadlock(plan_, next);
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
      const std::vector<Home> from = homes(schedule, Stage{stage});
      const std::vector<Home> to = homes(schedule, Stage{stage + 1});
      for (std::size_t copy = 0; copy < from.size(); ++copy) {
        add(replica.gpus[from[copy].rank.index()], replica.gpus[to[copy].rank.index()]);
      }
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
