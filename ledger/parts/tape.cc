#include "ledger/parts/tape.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace pipeledger {

std::int64_t TapeTensor::numel() const {
  return std::accumulate(shape.begin(), shape.begin() + num_dimensions, std::int64_t{1},
                         std::multiplies<>{});
}

std::int64_t PartParameters::num() const {
  std::int64_t numel = 0;
  for (const Weight& weight : weights) numel += weight.numel;
  return numel;
}

std::int64_t PartParameters::num_trained() const {
  std::int64_t numel = 0;
  for (const Weight& weight : weights) numel += weight.frozen ? 0 : weight.numel;
  return numel;
}

Live& Live::operator+=(const Live& other) {
  activations += other.activations;
  logits += other.logits;
  return *this;
}

void Tape::weight(Weight weight) {
  weight.frozen = is_frozen;
  weight.scope = scope;
  parameters_.weights.push_back(weight);
}

TensorId Tape::tensor(std::string_view module, std::string_view name,
                      std::initializer_list<std::int64_t> dimensions, std::int64_t element_bytes,
                      Cut cut) {
  const auto id = static_cast<TensorId>(tensors_.size());
  TapeTensor tensor{.module = module, .name = name, .element_bytes = element_bytes, .cut = cut};
  tensor.storage = id;
  for (const std::int64_t size : dimensions) {
    tensor.shape[static_cast<std::size_t>(tensor.num_dimensions++)] = size;
  }
  tensors_.push_back(tensor);
  return id;
}

TensorId Tape::hidden(std::string_view module, std::string_view name, std::int64_t width) {
  return tensor(module, name, {shape.region_s(), shape.b, width == 0 ? shape.h : width},
                shape.element, region());
}

TensorId Tape::stream(std::string_view module, std::string_view name) {
  const TensorId id = hidden(module, name);
  set_element_bytes(id, shape.stream_element);
  return id;
}

TensorId Tape::inner(std::string_view module, std::string_view name, std::int64_t width) {
  return tensor(module, name, {shape.s, shape.b, width}, shape.element, Cut::tensor_parallel);
}

TensorId Tape::like(TensorId other, std::string_view module, std::string_view name) {
  const auto id = static_cast<TensorId>(tensors_.size());
  TapeTensor copy = at(other);
  copy.module = module;
  copy.name = name;
  copy.storage = id;
  tensors_.push_back(copy);
  return id;
}

TensorId Tape::view(TensorId other, std::string_view module, std::string_view name) {
  const TensorId id = like(other, module, name);
  tensors_.back().storage = at(other).storage;
  return id;
}

TensorId Tape::statistic(TensorId id) {
  tensors_[static_cast<std::size_t>(id)].statistic = true;
  return id;
}

TensorId Tape::logits(TensorId id) {
  tensors_[static_cast<std::size_t>(id)].category = Category::logits;
  return id;
}

TapeNode& Tape::add(TapeNode node) {
  nodes_.push_back(std::move(node));
  return nodes_.back();
}

void Tape::recompute(int first, int last, int restore_before, bool discards_output) {
  recomputed_.push_back({first, last, restore_before, discards_output});
}

void Tape::offload(int first, int last, std::int64_t min_numel) {
  offloaded_.push_back({first, last, min_numel});
}

void Tape::module(OffloadModule name, int first, int last) {
  const Train& train = scenario.train;
  if (offloads && train.offloads(name)) offload(first, last, train.min_offloaded_tensor_size);
}

void Tape::drop_gradients() {
  for (TapeNode& node : nodes_) {
    for (const TensorId id : node.inputs) node.reads.push_back(id);
    node.inputs = {};
    node.saved = {};
    node.has_weight = node.overwrites_saved = node.passes_gradient = false;
    node.backward_workspace = node.weight_workspace = 0;
    node.backward_kernels.clear();
    node.backward_collectives.clear();
  }
  recomputed_.clear();
  offloaded_.clear();
}

void Tape::hold(TensorId id, int last) { held_.push_back({id, last}); }

std::vector<std::pair<int, int>> Tape::run_again_before(int i) const {
  std::vector<std::pair<int, int>> ranges;
  for (const Recomputed& segment : recomputed_) {
    if (segment.restore_before == i) ranges.emplace_back(segment.first, segment.last);
  }
  return ranges;
}

namespace {

bool exchanges(const std::vector<StepCollective>& collectives) {
  return std::any_of(collectives.begin(), collectives.end(),
                     [](const StepCollective& each) { return each.is_expert_exchange(); });
}

}  // namespace

/// A block as the player calls it, before a part's slots are numbered.
enum class RawSlot : int { none = -1 };
constexpr int raw(RawSlot slot) { return static_cast<int>(slot); }

/// What a node needs while it runs, beside its tensors: for its forward or its inputs' gradients,
/// and for its weight's gradient.
enum class Workspace { node, weight };

/// The raw slots of a tape: first its tensors, then gradients, workspaces, and the outputs that
/// recompute makes a second time.
class RawSlots {
 public:
  explicit RawSlots(std::size_t num_tensors) : num_tensors_(static_cast<int>(num_tensors)) {}

  /// Each tensor may have two gradients, and the losses' are there from the first.
  std::size_t num_gradients() const { return static_cast<std::size_t>(2 * num_tensors_ + kLosses); }
  std::size_t size() const { return static_cast<std::size_t>(seconds() + num_tensors_); }

  RawSlot tensor(TensorId id) const { return id < 0 ? RawSlot::none : RawSlot(id); }
  RawSlot gradient(int number) const { return RawSlot(num_tensors_ + number); }
  RawSlot workspace(Workspace which) const {
    return RawSlot(workspaces() + static_cast<int>(which));
  }
  RawSlot second(TensorId id) const { return RawSlot(seconds() + id); }

 private:
  static constexpr int kLosses = 8;  // as many as TensorIds holds
  static constexpr int kWorkspaces = 2;

  int workspaces() const { return num_tensors_ + static_cast<int>(num_gradients()); }
  int seconds() const { return workspaces() + kWorkspaces; }

  int num_tensors_;
};

/// Who wants the levels alone.
struct NoEvents {
  void born(RawSlot, std::int64_t) {}
  void freed(RawSlot) {}
  void renamed(RawSlot, RawSlot) {}
};

/// Writes down what is born and freed, under raw slots.
class EventList {
 public:
  void born(RawSlot slot, std::int64_t bytes) { add(TapeEvent::Kind::born, slot, bytes); }
  void freed(RawSlot slot) { add(TapeEvent::Kind::freed, slot, 0); }
  void renamed(RawSlot from, RawSlot to) { add(TapeEvent::Kind::renamed, to, raw(from)); }
  std::vector<TapeEvent> take() { return std::exchange(list_, {}); }

 private:
  void add(TapeEvent::Kind kind, RawSlot slot, std::int64_t value) {
    list_.push_back({kind, raw(slot), value});
  }

  std::vector<TapeEvent> list_;
};

class SlotNumbers;

/// Runs a tape's forward and backward, notes the levels, and tells of each birth and death.
template <class Events>
class TapePlayer {
 public:
  explicit TapePlayer(const Tape& tape)
      : tape_(tape),
        num_tensors_(tape.tensors_.size()),
        slots_(num_tensors_),
        storages_(num_tensors_) {
    survey();
  }

  PartLife play() {
    PartLife life;
    forward(life);
    life.backward_peak = backward(Weights::with).peak;
    if (tape_.scenario.train.delay_wgrad_compute) {
      life.delayed_backward_peak = backward(Weights::by_module).peak;
    }
    const Half half = backward(Weights::never);
    life.input_backward_peak = half.peak;
    life.stash = half.left;
    life.weight_backward_peak = weights(half);
    life.tensors = saved_tensors();
    return life;
  }

  PartEvents write_events();
  void write_split_backward(PartEvents& made, std::vector<bool>& is_used, SlotNumbers& numbers);
  int input_gradient() const {
    return tape_.input < 0 ? -1 : gradient_of_[static_cast<std::size_t>(tape_.input)];
  }

 private:
  /// What becomes of one tensor's memory.
  struct Storage {
    int made = -1;         // by which node; -1: from outside
    int last_read = -1;    // in the forward
    int first_saver = -1;  // the node whose backward is the last to need it; -1: nobody saves it
    bool kept = false;     // from forward to backward
    bool offloaded = false;
    int leaves_after = -1;  // offloaded: the node that ends as it goes
  };
  struct Gradient {
    std::int64_t bytes = 0;
    Category category = Category::activations;
    int owners = 0;
  };
  struct Half {
    Live peak;
    Live left;
  };
  /// When a backward makes its weights' gradients, and lets go of what they need.
  enum class Weights { with, by_module, never };

  /// A workspace's block stands from here to end_workspace.
  void begin_workspace(Workspace which, std::int64_t size) {
    if (size > 0) events_.born(slots_.workspace(which), size);
  }
  void end_workspace(Workspace which, std::int64_t size) {
    if (size > 0) events_.freed(slots_.workspace(which));
  }

  Storage& storage(TensorId id) {
    return storages_[static_cast<std::size_t>(tape_.at(id).storage)];
  }
  bool owns(TensorId id) const { return tape_.at(id).storage == id; }
  int num_nodes() const { return tape_.num_nodes(); }
  const TapeNode& node(int i) const { return tape_.nodes_[static_cast<std::size_t>(i)]; }

  const Tape::Recomputed* recomputed_at(int i) const {
    for (const Tape::Recomputed& segment : tape_.recomputed_) {
      if (segment.first <= i && i <= segment.last) return &segment;
    }
    return nullptr;
  }
  static bool inside(const Tape::Recomputed& segment, int i) {
    return segment.first <= i && i <= segment.last;
  }

  /// Who makes, reads and keeps what.
  void survey() {
    for (int i = 0; i < num_nodes(); ++i) {
      for (const TensorId id : node(i).outputs) {
        if (owns(id)) storage(id).made = i;
        storage(id).last_read = std::max(storage(id).last_read, i);
      }
      for (const TensorIds* ids : {&node(i).inputs, &node(i).reads}) {
        for (const TensorId id : *ids) storage(id).last_read = i;
      }
    }
    for (const Tape::Held& held : tape_.held_) {
      storage(held.id).last_read = std::max(storage(held.id).last_read, held.last);
    }
    if (tape_.output >= 0) storage(tape_.output).last_read = num_nodes();
    for (int i = num_nodes() - 1; i >= 0; --i) survey_saved(i);
    for (const Tape::Offloaded& group : tape_.offloaded_) survey_offloaded(group);
  }

  void survey_saved(int i) {
    const Tape::Recomputed* segment = recomputed_at(i);
    for (const TensorId id : node(i).saved) {
      Storage& s = storage(id);
      s.first_saver = i;
      const Tape::Recomputed* maker = s.made < 0 ? nullptr : recomputed_at(s.made);
      const bool dropped = maker != nullptr && (maker->discards_output || (segment == maker));
      if (!dropped) s.kept = true;
    }
    if (segment == nullptr) return;
    // A module that runs again needs all it took from outside.
    for (const TensorIds* ids : {&node(i).inputs, &node(i).reads}) {
      for (const TensorId id : *ids) {
        Storage& s = storage(id);
        if (s.made >= 0 && inside(*segment, s.made)) continue;
        const Tape::Recomputed* maker = s.made < 0 ? nullptr : recomputed_at(s.made);
        if (maker != nullptr && maker->discards_output) continue;
        s.kept = true;
        s.first_saver = s.first_saver < 0 ? i : std::min(s.first_saver, i);
      }
    }
  }

  void survey_offloaded(const Tape::Offloaded& group) {
    for (int i = group.first; i <= group.last; ++i) {
      for (const TensorId id : node(i).saved) {
        Storage& s = storage(id);
        if (!s.kept || tape_.at(id).numel() < group.min_numel) continue;
        s.offloaded = true;
        s.leaves_after = std::max(s.last_read, group.last);
      }
    }
  }

  std::int64_t bytes(TensorId id) const { return tape_.at(id).bytes(); }
  Category category(TensorId id) const { return tape_.at(id).category; }

  static void raise(Live& peak, const Live& level) {
    if (level.total() > peak.total()) peak = level;
  }

  void forward(PartLife& life) {
    Live live;
    if (tape_.input >= 0) {
      live.of(category(tape_.input)) += bytes(tape_.input);
      if (storage(tape_.input).kept && !storage(tape_.input).offloaded) {
        life.input = bytes(tape_.input);
      }
    }
    raise(life.forward_peak, live);
    for (int i = 0; i < num_nodes(); ++i) {
      begin_workspace(Workspace::node, node(i).forward_workspace);
      for (const TensorId id : node(i).outputs) {
        if (!owns(id)) continue;
        live.of(category(id)) += bytes(id);
        events_.born(slots_.tensor(id), bytes(id));
      }
      raise(life.forward_peak, with(live, node(i).forward_workspace));
      end_workspace(Workspace::node, node(i).forward_workspace);
      release_after(i, live);
    }
    life.kept = live;
    for (std::size_t id = 0; id < num_tensors_; ++id) {
      const auto tensor = static_cast<TensorId>(id);
      if (!owns(tensor)) continue;
      if (storages_[id].offloaded) life.offloaded.of(category(tensor)) += bytes(tensor);
      // The output is the next part's.
      const bool is_output = tape_.output >= 0 && tape_.at(tape_.output).storage == tensor;
      if (is_output && !storages_[id].kept) life.kept.of(category(tensor)) -= bytes(tensor);
    }
    kept_ = life.kept;
    offloaded_ = life.offloaded;
  }

  void release_after(int i, Live& live) {
    for (std::size_t id = 0; id < num_tensors_; ++id) {
      const Storage& s = storages_[id];
      const auto tensor = static_cast<TensorId>(id);
      if (!owns(tensor)) continue;
      const bool goes = s.kept ? s.offloaded && s.leaves_after == i : s.last_read == i;
      if (!goes) continue;
      live.of(category(tensor)) -= bytes(tensor);
      events_.freed(slots_.tensor(tensor));
    }
  }

  static Live with(Live live, std::int64_t workspace) {
    live.activations += workspace;
    return live;
  }

  // Backward.

  /// Runs backward; without its weights' gradients their tensors stay.
  Half backward(Weights weights) {
    const bool split = weights != Weights::with;
    Half half;
    Live live = kept_ + offloaded_;
    gradients_.assign(slots_.num_gradients(), Gradient{});
    num_gradients_ = 0;
    gradient_of_.assign(num_tensors_, -1);
    alive_.assign(num_tensors_, false);
    saved_left_ = {};
    saved_waiting_.clear();
    waiting_workspace_ = 0;
    for (std::size_t id = 0; id < num_tensors_; ++id) {
      const auto tensor = static_cast<TensorId>(id);
      alive_[id] = storages_[id].kept;
      if (owns(tensor) && storages_[id].offloaded)
        events_.born(slots_.tensor(tensor), bytes(tensor));
    }
    twice_ = 0;
    twice_made_.clear();
    if (tape_.output >= 0) make_gradient(tape_.output, live, Origin::received);
    for (const TensorId loss : tape_.losses_) make_gradient(loss, live);
    raise(half.peak, live);
    for (int i = num_nodes() - 1; i >= 0; --i) {
      for (const Tape::Recomputed& segment : tape_.recomputed_) {
        if (segment.restore_before == i) run_again(segment, live, half.peak);
      }
      // An exchange begins when the experts' weight gradients are made.
      const bool by_module = weights == Weights::by_module;
      if (by_module && exchanges(node(i).backward_collectives)) make_weight_gradients(live, half);
      backward_of(i, split, live, half);
      if (by_module && i == 0) make_weight_gradients(live, half);
    }
    counted_.clear();
    return half;
  }

  enum class Origin { made, received };

  int make_gradient(TensorId id, Live& live, Origin origin = Origin::made) {
    // Gradients of fp8 tensors are 16-bit; all others are as their tensors.
    const std::int64_t size =
        tape_.at(id).numel() *
        std::max(tape_.at(id).element_bytes, std::min<std::int64_t>(2, tape_.shape.element));
    const int made = num_gradients_++;
    gradients_[static_cast<std::size_t>(made)] = {size, category(id), 1};
    live.of(category(id)) += size;
    if (origin == Origin::made) {
      if (overwritten_ >= 0 && bytes(overwritten_) == size) {
        events_.renamed(slots_.tensor(tape_.at(overwritten_).storage), slots_.gradient(made));
      } else {
        if (overwritten_ >= 0) events_.freed(slots_.tensor(tape_.at(overwritten_).storage));
        events_.born(slots_.gradient(made), size);
      }
      overwritten_ = -1;
    }
    if (gradient_of_[static_cast<std::size_t>(id)] < 0) {
      gradient_of_[static_cast<std::size_t>(id)] = made;
    }
    return made;
  }

  void drop(int gradient, Live& live) {
    Gradient& g = gradients_[static_cast<std::size_t>(gradient)];
    if (--g.owners > 0) return;
    live.of(g.category) -= g.bytes;
    events_.freed(slots_.gradient(gradient));
  }

  void backward_of(int i, bool split, Live& live, Half& half) {
    const TapeNode& n = node(i);
    const int arrived = arrived_gradient(n);
    if (arrived >= 0) make_input_gradients(n, arrived, split, live, half);
    const bool stays = split && n.has_weight;
    if (stays) waiting_workspace_ = std::max(waiting_workspace_, n.weight_workspace);
    let_go_of_output_gradients(n, stays, live, half);
    release_saved(i, stays, live, half);
    for (const Tape::Recomputed& segment : tape_.recomputed_) {
      if (segment.first == i && !segment.discards_output) forget_second_outputs(live);
    }
  }

  /// The first output's gradient that there is; -1: none.
  int arrived_gradient(const TapeNode& n) const {
    for (const TensorId id : n.outputs) {
      const int gradient = gradient_of_[static_cast<std::size_t>(id)];
      if (gradient >= 0) return gradient;
    }
    return -1;
  }

  void make_input_gradients(const TapeNode& n, int arrived, bool split, Live& live, Half& half) {
    const std::int64_t weight_workspace = split ? 0 : n.weight_workspace;
    begin_workspace(Workspace::node, n.backward_workspace);
    begin_workspace(Workspace::weight, weight_workspace);
    if (n.overwrites_saved) forget(n.saved.front(), live);
    std::array<std::pair<TensorId, int>, 8> second{};  // a tensor's second gradient
    std::size_t num_second = 0;
    for (const TensorId id : n.inputs) {
      int& known = gradient_of_[static_cast<std::size_t>(id)];
      if (n.passes_gradient) {
        if (known >= 0) continue;
        known = arrived;
        ++gradients_[static_cast<std::size_t>(arrived)].owners;
        continue;
      }
      const bool is_second = known >= 0;
      const int made = make_gradient(id, live);
      if (is_second) second[num_second++] = {id, made};
    }
    raise(half.peak, with(live, n.backward_workspace + weight_workspace));
    end_workspace(Workspace::node, n.backward_workspace);
    end_workspace(Workspace::weight, weight_workspace);
    for (std::size_t k = 0; k < num_second; ++k) {
      add_gradient(second[k].first, live, half);
      drop(second[k].second, live);
    }
  }

  /// A second gradient is added to the first: in place, if nobody else holds it.
  void add_gradient(TensorId id, Live& live, Half& half) {
    int& known = gradient_of_[static_cast<std::size_t>(id)];
    if (gradients_[static_cast<std::size_t>(known)].owners == 1) return;
    const int earlier = known;
    known = -1;
    known = make_gradient(id, live);
    raise(half.peak, live);
    drop(earlier, live);
  }

  /// `stays`: the weight's gradient, made later, needs it still.
  void let_go_of_output_gradients(const TapeNode& n, bool stays, Live& live, Half& half) {
    for (const TensorId id : n.outputs) {
      int& known = gradient_of_[static_cast<std::size_t>(id)];
      if (known < 0) continue;
      if (stays) {
        const Gradient& g = gradients_[static_cast<std::size_t>(known)];
        if (!is_counted(known)) half.left.of(g.category) += g.bytes;
        counted_.push_back(known);
      } else {
        drop(known, live);
      }
      known = -1;
    }
  }

  void forget_second_outputs(Live& live) {
    live.activations -= twice_;
    twice_ = 0;
    for (const TensorId id : twice_made_) events_.freed(slots_.second(id));
    twice_made_.clear();
  }

  /// Of all linear layers whose gradients have waited.
  void make_weight_gradients(Live& live, Half& half) {
    raise(half.peak, with(live, waiting_workspace_));
    begin_workspace(Workspace::weight, waiting_workspace_);
    end_workspace(Workspace::weight, waiting_workspace_);
    for (const int gradient : counted_) drop(gradient, live);
    counted_.clear();
    for (const TensorId id : saved_waiting_) events_.freed(slots_.tensor(id));
    saved_waiting_.clear();
    live = live - saved_left_;
    saved_left_ = {};
    waiting_workspace_ = 0;
    half.left = {};
  }

  void forget(TensorId id, Live& live) {
    alive_[static_cast<std::size_t>(tape_.at(id).storage)] = false;
    live.of(category(id)) -= bytes(id);
    overwritten_ = id;
  }

  bool is_counted(int gradient) const {
    return std::find(counted_.begin(), counted_.end(), gradient) != counted_.end();
  }

  void release_saved(int i, bool stays, Live& live, Half& half) {
    for (std::size_t id = 0; id < num_tensors_; ++id) {
      const auto tensor = static_cast<TensorId>(id);
      if (!owns(tensor) || !alive_[id] || storages_[id].first_saver != i) continue;
      alive_[id] = false;
      if (stays) {
        half.left.of(category(tensor)) += bytes(tensor);
        saved_left_.of(category(tensor)) += bytes(tensor);
        saved_waiting_.push_back(tensor);
      } else {
        live.of(category(tensor)) -= bytes(tensor);
        events_.freed(slots_.tensor(tensor));
      }
    }
  }

  /// A module's forward again: what it saves is back, and its outputs, unless they were discarded,
  /// exist twice until its backward is through.
  void run_again(const Tape::Recomputed& segment, Live& live, Live& peak) {
    std::vector<bool> passing(num_tensors_, false);
    for (int i = segment.first; i <= segment.last; ++i) {
      begin_workspace(Workspace::node, node(i).forward_workspace);
      for (const TensorId id : node(i).outputs) {
        if (!owns(id)) continue;
        const auto index = static_cast<std::size_t>(id);
        const Storage& s = storages_[index];
        const bool is_output = s.last_read > segment.last;
        if (is_output && !segment.discards_output) {
          twice_ += bytes(id);
          live.activations += bytes(id);
          twice_made_.push_back(id);
          events_.born(slots_.second(id), bytes(id));
          continue;
        }
        if (alive_[index]) continue;
        live.of(category(id)) += bytes(id);
        events_.born(slots_.tensor(id), bytes(id));
        (s.first_saver >= 0 ? alive_ : passing)[index] = true;
      }
      raise(peak, with(live, node(i).forward_workspace));
      end_workspace(Workspace::node, node(i).forward_workspace);
      for (std::size_t id = 0; id < num_tensors_; ++id) {
        if (!passing[id] || storages_[id].last_read > i) continue;
        passing[id] = false;
        let_go(static_cast<TensorId>(id), live);
      }
    }
    // An output that nobody saves has served its turn.
    for (std::size_t id = 0; id < num_tensors_; ++id) {
      if (passing[id]) let_go(static_cast<TensorId>(id), live);
    }
  }

  void let_go(TensorId id, Live& live) {
    live.of(category(id)) -= bytes(id);
    events_.freed(slots_.tensor(id));
  }

  /// The second half: every linear layer's weight gradient, with what the first half left.
  Live weights(const Half& half) const {
    std::int64_t workspace = 0;
    for (const TapeNode& n : tape_.nodes_) workspace = std::max(workspace, n.weight_workspace);
    return with(half.left, workspace);
  }

  std::vector<SavedTensor> saved_tensors() const {
    std::vector<std::size_t> births(num_tensors_);
    std::iota(births.begin(), births.end(), std::size_t{0});
    std::stable_sort(births.begin(), births.end(), [&](std::size_t a, std::size_t b) {
      return storages_[a].made < storages_[b].made;
    });
    std::vector<SavedTensor> list;
    for (const std::size_t id : births) {
      const TapeTensor& tensor = tape_.tensors_[id];
      const Storage& s = storages_[id];
      // Without bytes: another part's tensor.
      if (!owns(static_cast<TensorId>(id)) || s.first_saver < 0 || tensor.bytes() == 0) continue;
      list.push_back({.name = fmt::format("{}.{}", tensor.module, tensor.name),
                      .shape = {tensor.shape.begin(), tensor.shape.begin() + tensor.num_dimensions},
                      .element_bytes = tensor.element_bytes,
                      .cut = tensor.cut,
                      .category = tensor.category,
                      .statistic = tensor.statistic,
                      .recomputed = !s.kept,
                      .offloaded = s.offloaded});
    }
    return list;
  }

  const Tape& tape_;
  std::size_t num_tensors_;
  RawSlots slots_;
  std::vector<Storage> storages_;
  Live kept_, offloaded_;
  std::vector<Gradient> gradients_;
  int num_gradients_ = 0;
  std::vector<int> gradient_of_;         // by tensor; -1: none yet
  std::vector<bool> alive_;              // by storage: saved, and here
  std::vector<int> counted_;             // gradients that the stash holds already
  Live saved_left_;                      // saved tensors that the stash holds
  std::vector<TensorId> saved_waiting_;  // those
  std::int64_t waiting_workspace_ = 0;   // of the weights' gradients to come
  std::int64_t twice_ = 0;               // outputs that recompute made a second time
  std::vector<TensorId> twice_made_;     // those
  TensorId overwritten_ = -1;  // the saved tensor that the next gradient is written over; -1: none
  Events events_;
};

PartLife play(const Tape& tape) { return TapePlayer<NoEvents>(tape).play(); }

/// Gives the slots that stand between lists the low numbers.
class SlotNumbers {
 public:
  explicit SlotNumbers(std::size_t num_raw) : number_(num_raw, -1) {}

  void name(int slot) {
    if (slot >= 0 && number_[static_cast<std::size_t>(slot)] < 0)
      number_[static_cast<std::size_t>(slot)] = num_++;
  }
  void name(const std::vector<TapeEvent>& list) {
    for (const TapeEvent& event : list) name(event.slot);
  }
  int num() const { return num_; }

  int operator()(int slot) const { return slot < 0 ? -1 : number_[static_cast<std::size_t>(slot)]; }
  void operator()(std::vector<TapeEvent>& list) const {
    for (TapeEvent& event : list) {
      event.slot = (*this)(event.slot);
      if (event.kind == TapeEvent::Kind::renamed)
        event.value = (*this)(static_cast<int>(event.value));
    }
  }

 private:
  std::vector<int> number_;
  int num_ = 0;
};

/// The slots in use behind a list of events.
void follow(const std::vector<TapeEvent>& list, std::vector<bool>& is_used) {
  for (const TapeEvent& event : list) {
    is_used[static_cast<std::size_t>(event.slot)] = event.kind != TapeEvent::Kind::freed;
    if (event.kind == TapeEvent::Kind::renamed)
      is_used[static_cast<std::size_t>(event.value)] = false;
  }
}

/// Numbers every list's slots, those that stand between lists first.
void number(PartEvents& made, SlotNumbers& numbers) {
  made.num_kept = numbers.num();
  for (const int slot : {made.input, made.output, made.output_gradient, made.input_gradient,
                         made.split_input_gradient}) {
    numbers.name(slot);
  }
  for (auto* list : {&made.forward, &made.unsaved_forward, &made.backward, &made.input_backward,
                     &made.weight_backward}) {
    numbers.name(*list);
    numbers(*list);
  }
  for (int* slot : {&made.input, &made.output, &made.output_gradient, &made.input_gradient,
                    &made.split_input_gradient}) {
    *slot = numbers(*slot);
  }
  made.num_slots = numbers.num();
}

/// The two halves; W frees all that I has left.
template <class Events>
void TapePlayer<Events>::write_split_backward(PartEvents& made, std::vector<bool>& is_used,
                                              SlotNumbers& numbers) {
  const Half half = backward(Weights::never);
  made.input_backward = events_.take();
  if (made.output_gradient >= 0) is_used[static_cast<std::size_t>(made.output_gradient)] = true;
  follow(made.input_backward, is_used);
  if (const int gradient = input_gradient(); gradient >= 0) {
    made.split_input_gradient = raw(slots_.gradient(gradient));
    made.keeps_split_gradient = gradients_[static_cast<std::size_t>(gradient)].owners > 1;
  }
  const std::int64_t workspace = (weights(half) - half.left).total();
  begin_workspace(Workspace::weight, workspace);
  end_workspace(Workspace::weight, workspace);
  for (std::size_t slot = 0; slot < is_used.size(); ++slot) {
    const auto own = static_cast<int>(slot);
    const bool is_handed_on = (own == made.split_input_gradient && !made.keeps_split_gradient) ||
                              (own == made.output && !made.keeps_output);
    if (!is_used[slot] || is_handed_on) continue;
    numbers.name(own);
    events_.freed(RawSlot(own));
  }
  made.weight_backward = events_.take();
}

template <class Events>
PartEvents TapePlayer<Events>::write_events() {
  PartEvents made;
  PartLife levels;
  std::vector<bool> is_used(slots_.size(), false);
  const auto storage_of = [&](TensorId id) { return id < 0 ? -1 : tape_.at(id).storage; };
  made.input = storage_of(tape_.input);
  made.output = storage_of(tape_.output);
  made.keeps_output = made.output >= 0 && storages_[static_cast<std::size_t>(made.output)].kept;
  if (made.input >= 0) is_used[static_cast<std::size_t>(made.input)] = true;
  forward(levels);
  made.forward = events_.take();
  follow(made.forward, is_used);
  SlotNumbers numbers(slots_.size());
  for (std::size_t slot = 0; slot < is_used.size(); ++slot) {
    const bool is_handed_on = static_cast<int>(slot) == made.output && !made.keeps_output;
    if (is_used[slot] && !is_handed_on) numbers.name(static_cast<int>(slot));
  }

  backward(tape_.scenario.train.delay_wgrad_compute ? Weights::by_module : Weights::with);
  made.backward = events_.take();
  if (tape_.output >= 0) made.output_gradient = raw(slots_.gradient(0));
  if (const int gradient = input_gradient(); gradient >= 0)
    made.input_gradient = raw(slots_.gradient(gradient));

  write_split_backward(made, is_used, numbers);

  for (Storage& s : storages_) s.kept = s.offloaded = false;
  forward(levels);
  made.unsaved_forward = events_.take();

  number(made, numbers);
  return made;
}

PartEvents events(const Tape& tape) { return TapePlayer<EventList>(tape).write_events(); }

namespace {

/// One direction's kernels and collectives, in order.
class Runs {
 public:
  void add(const std::vector<Kernel>& kernels, const std::vector<StepCollective>& collectives) {
    const bool exchange = exchanges(collectives);
    for (Kernel kernel : kernels) {
      kernel.phase = phase_;
      kernels_.push_back(kernel);
    }
    for (StepCollective collective : collectives) {
      // What an exchange's node does beside it belongs to the experts' side.
      const bool inside = exchange && !collective.is_expert_exchange() && phase_ == 0;
      collective.phase = phase_ + (inside ? 1 : 0);
      collectives_.push_back(collective);
    }
    if (exchange) ++phase_;
  }
  std::vector<Kernel> take_kernels() { return std::move(kernels_); }
  std::vector<StepCollective> take_collectives() { return std::move(collectives_); }

 private:
  std::vector<Kernel> kernels_;
  std::vector<StepCollective> collectives_;
  int phase_ = 0;
};

}  // namespace

PartWork work(const Tape& tape) {
  Runs forward, backward;
  const std::vector<TapeNode>& nodes = tape.nodes();
  for (const TapeNode& node : nodes) forward.add(node.forward_kernels, node.forward_collectives);
  for (int i = tape.num_nodes() - 1; i >= 0; --i) {
    for (const auto& [first, last] : tape.run_again_before(i)) {
      for (int again = first; again <= last; ++again) {
        const TapeNode& node = nodes[static_cast<std::size_t>(again)];
        backward.add(node.forward_kernels, node.forward_collectives);
      }
    }
    const TapeNode& node = nodes[static_cast<std::size_t>(i)];
    backward.add(node.backward_kernels, node.backward_collectives);
  }
  return {.forward = forward.take_kernels(),
          .backward = backward.take_kernels(),
          .forward_collectives = forward.take_collectives(),
          .backward_collectives = backward.take_collectives()};
}

}  // namespace pipeledger
