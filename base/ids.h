// Typed indices and the kinds of op, shared by every folder that speaks of a pipeline.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace pipeledger {

/// An index of one kind: a Stage is not a Rank. `.index()` is for subscripts.
template <class Kind>
struct Index {
  int value = 0;

  constexpr auto operator<=>(const Index&) const = default;
  constexpr std::size_t index() const { return static_cast<std::size_t>(value); }
};

/// A place along the pipeline, 0..p-1.
using Rank = Index<struct RankKind>;
/// A (virtual) stage of the model, 0..p*v-1.
using Stage = Index<struct StageKind>;
/// One of the v stages a rank holds, 0..v-1.
using Chunk = Index<struct ChunkKind>;
/// 0..m-1 within a step.
using Microbatch = Index<struct MicrobatchKind>;

/// F forward, B full backward, I input gradient, W weight gradient.
enum class OpKind : std::uint8_t { F, B, I, W };

constexpr char letter(OpKind kind) { return "FBIW"[static_cast<int>(kind)]; }

}  // namespace pipeledger
