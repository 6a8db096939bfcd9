// The letters of the formulas, as one rank of the tensor- and context-parallel groups sees them.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "spec/scenario.h"

namespace pipeledger {

/// s sequence, b micro-batch, h hidden, f FFN, a heads, d head width, q = a*d, V padded vocabulary,
/// t tensor-parallel size, c context-parallel size. The `local_` widths are what one rank of the
/// tensor-parallel group holds.
struct Shape {
  std::int64_t s = 0;        // of this rank: the whole sequence over c
  std::int64_t whole_s = 0;  // what attention looks at
  std::int64_t b = 0, h = 0, t = 1, c = 1;
  std::int64_t d = 0;
  std::int64_t local_heads = 0;
  std::int64_t local_groups = 0;  // at least 1: Megatron repeats a group when t exceeds them
  std::int64_t local_f = 0;
  std::int64_t local_vocab = 0;
  std::int64_t gate = 1;            // matrices of the first FFN layer: 2 with SwiGLU
  std::int64_t element = 2;         // bytes of an activation
  std::int64_t stream_element = 2;  // of the residual stream: 4 with fp32_residual_connection
  bool sequence_parallel = false;
  bool causal = true;  // a token sees those before it only

  /// Pairs of tokens that attention looks at, over the square of the sequence: half of a causal one
  /// (the diagonal counts half), and of a window w of the sequence s w/s (1 - w/2s). `window`: the
  /// tokens before it that a token sees; 0: all. `chunk`: the sequence is cut into such pieces, and
  /// each has the half of its own square; 0: it is not cut.
  double seen(std::int64_t window, std::int64_t chunk = 0) const {
    if (!causal) return 1;
    if (chunk > 0 && chunk < whole_s) {
      const auto share = [&](std::int64_t tokens) {
        const double of = static_cast<double>(tokens) / static_cast<double>(whole_s);
        return of * of / 2;
      };
      return static_cast<double>(whole_s / chunk) * share(chunk) + share(whole_s % chunk);
    }
    const double share =
        window > 0 ? static_cast<double>(window + 1) / static_cast<double>(whole_s) : 1;
    return share < 1 ? share * (1 - share / 2) : 0.5;
  }
  std::int64_t tokens() const { return s * b; }
  /// Rows of the sequence in the norm and dropout regions.
  std::int64_t region_s() const { return sequence_parallel ? s / t : s; }
  std::int64_t region_tokens() const { return region_s() * b; }
  std::int64_t local_q() const { return local_heads * d; }
  std::int64_t local_kv() const { return local_groups * d; }
  std::int64_t local_qkv() const { return local_q() + 2 * local_kv(); }
  std::int64_t local_fc1() const { return gate * local_f; }
  /// Elements of a hidden state in the norm and dropout regions of this rank.
  std::int64_t region_hidden() const { return region_tokens() * h; }
};

/// Requires a checked scenario: heads, FFN, vocabulary and sequence divide by what cuts them.
Shape shape_of(const Scenario& scenario);

/// Bytes of a parameter as forward and backward read it: 2, or 4 in fp32.
std::int64_t parameter_element_bytes(const Scenario& scenario);
/// Bytes of a gradient: 4 in fp32 or with accumulate_allreduce_grads_in_fp32, else 2.
std::int64_t gradient_element_bytes(const Scenario& scenario);

}  // namespace pipeledger
