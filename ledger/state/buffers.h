// The contiguous buffers that hold a model chunk's parameters and gradients (megatron.md 4).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ledger/ledger.h"
#include "ledger/parts/parameters.h"

namespace pipeledger {

struct BufferParameter {
  std::int64_t numel = 0;
  bool shared_embedding = false;  // gets a bucket of its own where the layout is padded
};

/// How one buffer is laid out.
struct BufferRules {
  int num_shards = 1;                       // ranks the buffer is cut over
  bool is_padded = false;                   // the distributed optimizer's layout
  bool pads_for_nccl = false;               // bucket ends at multiples of 2^16, too
  std::optional<std::int64_t> bucket_size;  // elements; nullopt: one bucket
};

/// [begin, end) in elements.
struct BufferRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  int bucket = 0;

  bool operator==(const BufferRange&) const = default;
};

struct BufferLayout {
  std::vector<BufferRange> parameters;  // in registration order
  std::vector<BufferRange> buckets;     // in order of backward; ends include the padding
  std::int64_t numel = 0;
  std::int64_t numel_unpadded = 0;  // without what pads bucket ends
};

/// Parameters go in from the last registered to the first. Padded (Megatron-LM,
/// DistributedOptimizer._compute_per_buffer_param_layout): each starts at a multiple of 64, a
/// bucket ends at a multiple of lcm(num_shards, 128). A bucket closes with the parameter that makes
/// it bucket_size or more. Not padded: back to back.
BufferLayout buffer_layout(std::span<const BufferParameter> parameters, const BufferRules& rules);

/// Elements of a bucket: max(40e6, 1e6 * data- and context-parallel ranks), unless written; nullopt
/// without overlap_grad_reduce (Megatron-LM, resolve_ddp_bucket_size). `num_parameters` is what
/// ddp_num_buckets divides: the rank's, over all chunks.
std::optional<std::int64_t> resolved_bucket_size(const Scenario& scenario,
                                                 std::int64_t num_parameters);

/// A chunk's parameters are kept apart by the group that reduces them, by type, and by who updates
/// them: Muon's matrices are not mixed with what Adam updates where its states are sharded.
struct BufferKey {
  bool expert = false;
  bool fp8 = false;   // stored in 8 bits (fp8_param_gather)
  bool muon = false;  // whole matrices to a rank (Megatron-LM, LayerWiseDistributedOptimizer)
};
inline constexpr std::size_t kNumBuffers = 8;
constexpr BufferKey buffer_key(std::size_t number) {
  return {.expert = (number & 1) != 0, .fp8 = (number & 2) != 0, .muon = (number & 4) != 0};
}
std::size_t buffer_number(const Scenario& scenario, const Weight& weight);

struct BufferSize {
  std::int64_t numel = 0;    // parameters
  std::int64_t padded = 0;   // with the layout's padding
  std::int64_t largest = 0;  // elements of the fullest rank, where the buffer is sharded
  int num_buckets = 0;
  std::int64_t num_matrices = 0;  // elements of matrices, which Muon updates
  std::int64_t frozen = 0;        // beside the buffer: parameters without gradients
};
using ChunkBuffers = std::array<BufferSize, kNumBuffers>;

/// The buffers of any stage of a scenario, from parts that are counted once.
class Buffers {
 public:
  /// `scenario` must outlive it.
  explicit Buffers(const Scenario& scenario);

  ChunkBuffers chunk(const StageLayout& stage) const;
  std::int64_t num_parameters(const StageLayout& stage) const;
  /// Elements of the distinct matrix shapes of these stages.
  std::int64_t num_distinct(std::span<const StageLayout> stages) const;
  /// Elements of linear layers that FP8 runs in: what it caches or stores in 8 bits.
  std::int64_t num_linear(const StageLayout& stage) const;
  /// Bytes beside the parameters that a stage keeps, on every rank.
  Bytes beside_parameters(const StageLayout& stage) const;

  /// The parameters of one buffer, one by one: in registration order, and where they lie in it.
  std::vector<BufferParameter> list(const StageLayout& stage, std::size_t number) const;
  BufferLayout layout(const StageLayout& stage, std::size_t number) const;
  /// Elements of each distinct matrix shape of these stages.
  std::vector<std::int64_t> distinct(std::span<const StageLayout> stages) const;

 private:
  struct Tally {
    std::int64_t numel = 0;
    std::int64_t aligned = 0;  // each parameter rounded up to 64 elements
    std::int64_t matrices = 0;
  };
  struct MatrixShape {
    std::int64_t rows = 0, columns = 0;
    auto operator<=>(const MatrixShape&) const = default;
  };
  struct PartTally {
    std::array<Tally, kNumBuffers> buffers;
    std::array<std::int64_t, kNumBuffers> frozen{};
    std::int64_t linear = 0;
    std::vector<MatrixShape> shapes;  // distinct ones
  };

  const PartTally& tally(Part part, int number) const {
    return tallies_[catalog_.number(part, number)];
  }
  static PartTally tally_of(const Scenario& scenario, const PartParameters& parameters);
  BufferRules rules(std::size_t number, std::optional<std::int64_t> bucket_size) const;
  void count(const StageLayout& stage, ChunkBuffers& chunk) const;
  void lay_out(const StageLayout& stage, std::size_t number, BufferSize& size,
               std::optional<std::int64_t> bucket_size) const;
  std::optional<std::int64_t> bucket_size(const StageLayout& stage) const;

  const Scenario& scenario_;
  PartCatalog catalog_;
  std::vector<PartTally> tallies_;   // by the catalog's numbers
  std::vector<std::size_t> used_;    // buffers that some part has parameters in
  std::vector<StageLayout> stages_;  // of the first rank, where ddp_num_buckets asks for them
};

/// Ranks over which the state of this buffer is sharded: data x context, or expert data, over the
/// optimizer's instances.
int num_shards(const Scenario& scenario, bool expert);

}  // namespace pipeledger
