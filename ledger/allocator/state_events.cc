#include "ledger/allocator/state_events.h"

#include <algorithm>

#include "ledger/state/buffers.h"
#include "ledger/state/framework_buffers.h"
#include "ledger/state/optimizer.h"
#include "ledger/state/state.h"

namespace pipeledger {
namespace {

/// Gives each block of a list a slot.
class Blocks {
 public:
  explicit Blocks(std::vector<TapeEvent>& list) : list_(list) {}
  int born(std::int64_t bytes) {
    if (bytes <= 0) return -1;
    list_.push_back({TapeEvent::Kind::born, next_, bytes});
    return next_++;
  }
  void freed(int slot) {
    if (slot >= 0) list_.push_back({TapeEvent::Kind::freed, slot, 0});
  }

 private:
  std::vector<TapeEvent>& list_;
  int next_ = 0;
};

bool is_made_by_parameter(const Scenario& scenario) {
  const Train& train = scenario.train;
  const Model& model = scenario.model;
  const bool is_plain = train.sharding == Sharding::no_shard || train.sharding == Sharding::optim;
  return train.ddp_impl == DdpImpl::megatron && is_plain &&
         (train.optimizer == Optimizer::adam || train.optimizer == Optimizer::sgd) && !train.fp8 &&
         train.optimizer_offload_fraction == 0 &&
         train.outer_dp_sharding_strategy == Sharding::no_shard && !model.freeze_language_model &&
         !(model.vision && model.freeze_vision_model) &&
         !(model.vision && model.freeze_vision_projection);
}

/// Elements of a parameter that number `shard` of the ranks updates: its part of every bucket.
std::int64_t owned(const BufferLayout& layout, const BufferRange& parameter, int shard, int ways) {
  const BufferRange& bucket = layout.buckets[static_cast<std::size_t>(parameter.bucket)];
  const std::int64_t part = (bucket.end - bucket.begin) / ways;
  const std::int64_t begin = std::max(parameter.begin, bucket.begin + part * shard);
  const std::int64_t end = std::min(parameter.end, bucket.begin + part * (shard + 1));
  return std::max<std::int64_t>(end - begin, 0);
}

class StateWriter {
 public:
  StateWriter(const Scenario& scenario, const std::vector<StageLayout>& chunks, ShardNumber shard)
      : scenario_(scenario), chunks_(chunks), buffers_(scenario), shard_(shard) {
    element_ = optimizer_element(scenario, false);
    weight_bytes_ = stored_element_bytes(scenario);
    is_sharded_ = scenario.train.sharding == Sharding::optim;
  }

  StateEvents write() {
    if (is_made_by_parameter(scenario_)) {
      by_parameter();
    } else {
      by_kind();
    }
    framework_buffers();
    return std::move(made_);
  }

 private:
  void by_kind() {
    const StateBytes state = resident_state(scenario_, chunks_);
    const bool has_master = element_.main_param > 0;
    const Bytes moments =
        element_.total() == 0 ? Bytes{} : state.optimizer * element_.moments / element_.total();
    Blocks initial(made_.initial);
    for (const Bytes bytes : {state.weights, state.gradients, state.fp8_weights, state.gathered})
      initial.born(bytes.value());
    if (has_master) initial.born((state.optimizer - moments).value());
    Blocks(made_.first_optimizer).born(moments.value());
  }

  void by_parameter() {
    Blocks blocks(made_.initial);
    std::vector<std::vector<std::vector<int>>> first;  // chunk, buffer, parameter
    for (const StageLayout& chunk : chunks_) {
      first.emplace_back(kNumBuffers);
      // Dense and experts' parameters register layer by layer; between them order decides little.
      for (std::size_t number = 0; number < kNumBuffers; ++number) {
        for (const BufferParameter& each : buffers_.list(chunk, number))
          first.back()[number].push_back(blocks.born(each.numel * weight_bytes_));
      }
    }
    for (std::size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
      for (std::size_t number = 0; number < kNumBuffers; ++number)
        buffer(blocks, chunks_[chunk], number, first[chunk][number]);
    }
    if (element_.main_param > 0 && weight_bytes_ < 4) {
      for_each_owned([&](std::int64_t numel) {
        const int copy = blocks.born(numel * weight_bytes_);
        blocks.born(numel * element_.main_param);
        blocks.freed(copy);
      });
    }
    Blocks moments(made_.first_optimizer);
    const int num_moments = scenario_.train.optimizer == Optimizer::adam ? 2 : 1;
    for_each_owned([&](std::int64_t numel) {
      for (int i = 0; i < num_moments; ++i) moments.born(numel * element_.moments / num_moments);
    });
  }

  void buffer(Blocks& blocks, const StageLayout& chunk, std::size_t number,
              const std::vector<int>& first) {
    if (first.empty()) return;
    const BufferLayout layout = buffers_.layout(chunk, number);
    if (is_sharded_) blocks.born(layout.numel * weight_bytes_);
    blocks.born(layout.numel * stored_gradient_bytes(scenario_));
    if (!is_sharded_) return;
    for (auto slot = first.rbegin(); slot != first.rend(); ++slot) blocks.freed(*slot);
  }

  /// Dense parameters first, then experts': each has an optimizer of its own.
  template <class Visit>
  void for_each_owned(Visit&& visit) const {
    for (std::size_t number = 0; number < kNumBuffers; ++number) {
      const bool expert = buffer_key(number).expert;
      const int ways = is_sharded_ ? num_shards(scenario_, expert) : 1;
      const int shard = (expert ? shard_.expert : shard_.dense) % ways;
      for (const StageLayout& chunk : chunks_) {
        const std::vector<BufferParameter> list = buffers_.list(chunk, number);
        if (list.empty()) continue;
        const BufferLayout layout = buffers_.layout(chunk, number);
        for (std::size_t i = 0; i < list.size(); ++i) {
          const std::int64_t numel =
              is_sharded_ ? owned(layout, layout.parameters[i], shard, ways) : list[i].numel;
          if (numel > 0) visit(numel);
        }
      }
    }
  }

  void framework_buffers() {
    Blocks forward(made_.first_forward), backward(made_.first_backward);
    if (dummy_gradient_bytes(scenario_, chunks_) > Bytes{}) {
      for (const std::int64_t numel : buffers_.distinct(chunks_))
        backward.born(numel * parameter_element_bytes(scenario_));
    }
    for (const PersistentBuffer& each : persistent_buffers(scenario_, chunks_)) {
      switch (each.born) {
        case PersistentBuffer::Born::first_forward:
          forward.born(each.bytes.value());
          break;
        case PersistentBuffer::Born::both_directions:
          forward.born(each.bytes.value() / 2);
          backward.born(each.bytes.value() / 2);
          break;
        case PersistentBuffer::Born::elsewhere:
          break;
      }
    }
  }

  const Scenario& scenario_;
  const std::vector<StageLayout>& chunks_;
  Buffers buffers_;
  ShardNumber shard_;
  OptimizerElement element_;
  std::int64_t weight_bytes_ = 2;
  bool is_sharded_ = false;
  StateEvents made_;
};

}  // namespace

StateEvents state_events(const Scenario& scenario, const std::vector<StageLayout>& chunks,
                         ShardNumber shard) {
  return StateWriter(scenario, chunks, shard).write();
}

}  // namespace pipeledger
