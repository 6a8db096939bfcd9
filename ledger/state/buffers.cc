#include "ledger/state/buffers.h"

#include <algorithm>
#include <numeric>
#include <queue>

#include "ledger/state/state.h"

namespace pipeledger {
namespace {

constexpr std::int64_t kAlignment = 64;  // elements; where a parameter may start

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

std::int64_t bucket_multiple(const BufferRules& rules) {
  if (!rules.is_padded) return 1;
  const std::int64_t common = std::lcm<std::int64_t>(rules.num_shards, 128);
  return rules.pads_for_nccl ? std::lcm<std::int64_t>(common, 1 << 16) : common;
}

/// Lays parameters down one after another, closing buckets as they fill.
class BufferCursor {
 public:
  explicit BufferCursor(const BufferRules& rules)
      : rules_(rules), multiple_(bucket_multiple(rules)) {}

  BufferRange add(const BufferParameter& parameter) {
    const bool alone = rules_.is_padded && parameter.shared_embedding;
    if (rules_.is_padded) cursor_ = round_up(cursor_, kAlignment);
    if (alone && !is_empty_) close();
    const BufferRange place = {cursor_, cursor_ + parameter.numel, num_buckets_};
    cursor_ = place.end;
    is_empty_ = false;
    const bool full = rules_.bucket_size && cursor_ - begin_ >= *rules_.bucket_size;
    if (full || alone) close();
    return place;
  }

  /// Ends the bucket at hand, if anything is in it.
  void finish() {
    if (!is_empty_) close();
  }

  std::int64_t numel() const { return begin_; }
  std::int64_t numel_unpadded() const { return unpadded_; }
  int num_buckets() const { return num_buckets_; }
  const std::vector<BufferRange>& buckets() const { return buckets_; }
  void record_buckets() { records_ = true; }

 private:
  void close() {
    unpadded_ += cursor_ - begin_;
    const std::int64_t end = round_up(cursor_, multiple_);
    if (records_) buckets_.push_back({begin_, end, num_buckets_});
    begin_ = cursor_ = end;
    is_empty_ = true;
    ++num_buckets_;
  }

  BufferRules rules_;
  std::int64_t multiple_;
  std::int64_t cursor_ = 0, begin_ = 0, unpadded_ = 0;
  int num_buckets_ = 0;
  bool is_empty_ = true;
  bool records_ = false;
  std::vector<BufferRange> buckets_;
};

/// Whole matrices to the least loaded of `num_shards` ranks, the largest first: elements of the
/// fullest. Megatron balances the work of Newton-Schulz instead, within 30 % of even.
std::int64_t fullest_shard(std::vector<BufferParameter> matrices, int num_shards) {
  std::sort(matrices.begin(), matrices.end(),
            [](const auto& a, const auto& b) { return a.numel > b.numel; });
  std::priority_queue<std::int64_t, std::vector<std::int64_t>, std::greater<>> loads(
      std::greater<>{}, std::vector<std::int64_t>(static_cast<std::size_t>(num_shards)));
  std::int64_t fullest = 0;
  for (const BufferParameter& matrix : matrices) {
    const std::int64_t load = round_up(loads.top(), kAlignment) + matrix.numel;
    loads.pop();
    loads.push(load);
    fullest = std::max(fullest, load);
  }
  return fullest;
}

}  // namespace

BufferLayout buffer_layout(std::span<const BufferParameter> parameters, const BufferRules& rules) {
  BufferLayout layout;
  layout.parameters.resize(parameters.size());
  BufferCursor cursor(rules);
  cursor.record_buckets();
  for (std::size_t i = parameters.size(); i-- > 0;)
    layout.parameters[i] = cursor.add(parameters[i]);
  cursor.finish();
  layout.buckets = cursor.buckets();
  layout.numel = cursor.numel();
  layout.numel_unpadded = cursor.numel_unpadded();
  return layout;
}

std::optional<std::int64_t> resolved_bucket_size(const Scenario& scenario,
                                                 std::int64_t num_parameters) {
  const Train& train = scenario.train;
  if (!train.overlap_grad_reduce) return std::nullopt;
  if (train.ddp_num_buckets) return num_parameters / *train.ddp_num_buckets;
  if (train.ddp_bucket_size) return *train.ddp_bucket_size;
  const std::int64_t replicas = scenario.parallel.data_context_parallel_size();
  return std::max<std::int64_t>(40'000'000, 1'000'000 * replicas);
}

std::size_t buffer_number(const Scenario& scenario, const Weight& weight) {
  const Train& train = scenario.train;
  const bool linear = weight.role == ParameterRole::linear;
  const bool matrix = linear || weight.role == ParameterRole::matrix;
  const bool fp8 = linear && train.fp8 && train.fp8->param_gather;
  const bool muon =
      matrix && train.optimizer == Optimizer::muon && train.sharding != Sharding::no_shard;
  return (weight.expert ? 1u : 0u) | (fp8 ? 2u : 0u) | (muon ? 4u : 0u);
}

int num_shards(const Scenario& scenario, bool expert) {
  const Parallel& parallel = scenario.parallel;
  const int replicas =
      expert ? parallel.expert_data_parallel_size() : parallel.data_context_parallel_size();
  return std::max(1, replicas / parallel.num_distributed_optimizer_instances);
}

Buffers::PartTally Buffers::tally_of(const Scenario& scenario, const PartParameters& parameters) {
  PartTally tally;
  for (const Weight& weight : parameters.weights) {
    const std::size_t number = buffer_number(scenario, weight);
    const bool linear = weight.role == ParameterRole::linear;
    if (linear) tally.linear += weight.numel;
    if (weight.frozen) {
      tally.frozen[number] += weight.numel;
      continue;
    }
    Tally& buffer = tally.buffers[number];
    buffer.numel += weight.numel;
    buffer.aligned += round_up(weight.numel, kAlignment);
    if (linear || weight.role == ParameterRole::matrix) buffer.matrices += weight.numel;
    if (weight.columns == 0) continue;
    const MatrixShape shape = {weight.numel / weight.columns, weight.columns};
    if (std::find(tally.shapes.begin(), tally.shapes.end(), shape) == tally.shapes.end())
      tally.shapes.push_back(shape);
  }
  return tally;
}

Buffers::Buffers(const Scenario& scenario) : scenario_(scenario), catalog_(scenario) {
  tallies_.reserve(catalog_.size());
  for (std::size_t part = 0; part < catalog_.size(); ++part)
    tallies_.push_back(tally_of(scenario, catalog_.at(part)));
  const auto is_used = [](std::size_t i) {
    return [i](const PartTally& each) { return each.buffers[i].numel + each.frozen[i] > 0; };
  };
  for (std::size_t i = 0; i < kNumBuffers; ++i)
    if (std::any_of(tallies_.begin(), tallies_.end(), is_used(i))) used_.push_back(i);
  if (scenario.train.ddp_num_buckets) {
    const std::vector<StageLayout> all = stage_layouts(scenario);
    const auto p = static_cast<std::size_t>(scenario.parallel.pipeline_model_parallel_size);
    for (std::size_t stage = 0; stage < all.size(); stage += p) stages_.push_back(all[stage]);
  }
}

std::int64_t Buffers::num_parameters(const StageLayout& stage) const {
  std::int64_t numel = 0;
  for_each_part(scenario_, stage, [&](Part part, int number) {
    const PartTally& own = tally(part, number);
    for (std::size_t i = 0; i < kNumBuffers; ++i) numel += own.buffers[i].numel + own.frozen[i];
  });
  return numel;
}

std::int64_t Buffers::num_distinct(std::span<const StageLayout> stages) const {
  const std::vector<std::int64_t> numels = distinct(stages);
  return std::accumulate(numels.begin(), numels.end(), std::int64_t{0});
}

std::vector<std::int64_t> Buffers::distinct(std::span<const StageLayout> stages) const {
  std::vector<bool> is_there(tallies_.size());
  for (const StageLayout& stage : stages) {
    for_each_part(scenario_, stage,
                  [&](Part part, int number) { is_there[catalog_.number(part, number)] = true; });
    // Tied, the output layer multiplies by the embedding's weight.
    if (stage.head) is_there[catalog_.number(Part::output_layer, 0)] = true;
  }
  std::vector<MatrixShape> shapes;
  for (std::size_t part = 0; part < tallies_.size(); ++part) {
    const std::vector<MatrixShape>& own = tallies_[part].shapes;
    if (is_there[part]) shapes.insert(shapes.end(), own.begin(), own.end());
  }
  std::sort(shapes.begin(), shapes.end());
  shapes.erase(std::unique(shapes.begin(), shapes.end()), shapes.end());
  std::vector<std::int64_t> numels;
  for (const MatrixShape& shape : shapes) numels.push_back(shape.rows * shape.columns);
  return numels;
}

std::int64_t Buffers::num_linear(const StageLayout& stage) const {
  std::int64_t numel = 0;
  for_each_part(scenario_, stage,
                [&](Part part, int number) { numel += tally(part, number).linear; });
  return numel;
}

Bytes Buffers::beside_parameters(const StageLayout& stage) const {
  std::int64_t bytes = 0;
  for_each_part(scenario_, stage, [&](Part part, int number) {
    bytes += catalog_.at(catalog_.number(part, number)).buffer_bytes;
  });
  return Bytes(bytes);
}

BufferRules Buffers::rules(std::size_t number, std::optional<std::int64_t> bucket_size) const {
  const Train& train = scenario_.train;
  return {.num_shards = num_shards(scenario_, buffer_key(number).expert),
          .is_padded = train.ddp_impl == DdpImpl::megatron && train.sharding == Sharding::optim,
          .pads_for_nccl = train.ddp_pad_buckets_for_high_nccl_busbw,
          .bucket_size = bucket_size};
}

/// Only the first pipeline rank's first chunk has buckets.
std::optional<std::int64_t> Buffers::bucket_size(const StageLayout& stage) const {
  if (!stage.embedding) return std::nullopt;
  std::int64_t num_rank_parameters = 0;
  for (const StageLayout& chunk : stages_) num_rank_parameters += num_parameters(chunk);
  return resolved_bucket_size(scenario_, num_rank_parameters);
}

void Buffers::count(const StageLayout& stage, ChunkBuffers& chunk) const {
  for_each_part(scenario_, stage, [&](Part part, int number) {
    const PartTally& own = tally(part, number);
    for (const std::size_t i : used_) {
      chunk[i].numel += own.buffers[i].numel;
      chunk[i].padded += own.buffers[i].aligned;
      chunk[i].num_matrices += own.buffers[i].matrices;
      chunk[i].frozen += own.frozen[i];
    }
  });
}

std::vector<BufferParameter> Buffers::list(const StageLayout& stage, std::size_t number) const {
  const std::optional<Part> shared = shared_embedding_part(scenario_, stage);
  std::vector<BufferParameter> parameters;
  for_each_part(scenario_, stage, [&](Part part, int layer) {
    for (const Weight& weight : catalog_.at(catalog_.number(part, layer)).weights) {
      if (weight.frozen || buffer_number(scenario_, weight) != number) continue;
      const bool is_shared = part == shared && weight.role == ParameterRole::embedding;
      parameters.push_back({weight.numel, is_shared});
    }
  });
  return parameters;
}

BufferLayout Buffers::layout(const StageLayout& stage, std::size_t number) const {
  return buffer_layout(list(stage, number), rules(number, bucket_size(stage)));
}

void Buffers::lay_out(const StageLayout& stage, std::size_t number, BufferSize& size,
                      std::optional<std::int64_t> bucket_size) const {
  const BufferRules layout = rules(number, bucket_size);
  const bool holds_shared = number == 0 && shared_embedding_part(scenario_, stage).has_value();
  if (buffer_key(number).muon && layout.is_padded) {
    // Every rank's part of the buffer is as long as the fullest.
    const std::int64_t unit = std::lcm(kAlignment, bucket_multiple(layout) / layout.num_shards);
    size.largest = round_up(fullest_shard(list(stage, number), layout.num_shards), unit);
    size.padded = size.largest * layout.num_shards;
    size.num_buckets = 1;
    return;
  }
  if (!bucket_size && !(layout.is_padded && holds_shared)) {
    // One bucket: starts are aligned, the end is padded; nothing to walk.
    size.padded = layout.is_padded ? round_up(size.padded, bucket_multiple(layout)) : size.numel;
    size.num_buckets = 1;
  } else {
    BufferCursor cursor(layout);
    const std::vector<BufferParameter> parameters = list(stage, number);
    for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) {
      cursor.add(*parameter);
    }
    cursor.finish();
    size.padded = cursor.numel();
    size.num_buckets = cursor.num_buckets();
  }
  size.largest = shard(size.padded, layout.num_shards);
}

ChunkBuffers Buffers::chunk(const StageLayout& stage) const {
  ChunkBuffers chunk;
  count(stage, chunk);
  const std::optional<std::int64_t> size = bucket_size(stage);
  for (const std::size_t i : used_) {
    if (chunk[i].numel > 0) lay_out(stage, i, chunk[i], size);
  }
  return chunk;
}

}  // namespace pipeledger
