// What a card holds beside tensors: the CUDA context and NCCL's communicators, which torch does not
// see, and what its allocator keeps beyond the tensors. Ranges, since drivers, versions and
// fabrics differ; each line names its source.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ledger/ledger.h"

namespace pipeledger {

struct Overhead {
  std::string name;
  Bytes low{};
  Bytes typical{};
  Bytes high{};
  std::string_view source;
};

/// Outside torch's allocator, on one rank: the CUDA context with its kernels, and one line for each
/// NCCL communicator that runs something. Which exist follows from the parallel sizes; a ring pays
/// for a receive and a send buffer a channel, a pipeline's or an all-to-all's peer for its own.
std::vector<Overhead> device_overheads(const Scenario& scenario, Rank rank);
Overhead total(const std::vector<Overhead>& overheads);

/// What torch reserves for tensors that peak at `allocated`: 0.7 % to 9.3 % more, 4.3 % on average
/// over the 120 ranks of 15 runs on B200 (SimuMax v1.2). Small models lie up to 11 % higher.
struct Reserved {
  Bytes low{};
  Bytes typical{};
  Bytes high{};
};
Reserved reserved(Bytes allocated);

/// What the allocator did with a rank's tensors when their life was played to it
/// (sim/allocation.h).
struct PlayedAllocator {
  Bytes allocated{}, reserved{};  // peaks
  Bytes largest_free_block{};     // as allocated peaks

  Bytes fragments() const { return reserved - allocated; }
};
/// Of the 208 ranks of SimuMax's runs, reserved lay 1.8 % below to 2.8 % above what was played.
Reserved reserved(const PlayedAllocator& played);

/// A step that is not like the others: how far its peak lies from theirs.
struct OtherStep {
  std::string name;
  Bytes difference{};  // negative: less
  std::string_view source;
};
/// The first iteration, whose forward and backward run before Adam has its moments; and an
/// evaluation pass, of which only logits are held and no activations: its bytes beside the state.
std::vector<OtherStep> other_steps(const Scenario& scenario, Rank rank);

/// How a card is shared out before the first tensor of the model.
struct CardBudget {
  std::string gpu;
  Bytes capacity{};
  std::vector<Overhead> outside;  // of torch's allocator
  std::vector<Overhead> buffers;  // the framework's own, inside it
  Overhead slack;                 // of the allocator, when the card is full
  Overhead left;                  // for the model's tensors
  std::vector<OtherStep> others;
};
/// `played`: the rank's allocator; nullopt: the fitted slack.
CardBudget card_budget(const Scenario& scenario, Rank rank,
                       const std::optional<PlayedAllocator>& played = std::nullopt);

/// For people: the table, at most 100 columns.
std::string to_text(const CardBudget& budget);

/// What a rank's card holds in all, beside it.
struct RankNeed {
  Bytes allocated{};
  std::optional<PlayedAllocator> played;

  Reserved reserved() const {
    return played ? pipeledger::reserved(*played) : pipeledger::reserved(allocated);
  }
};
/// "rank 0: allocated 41.57, reserved 42.61, ... of 79.65 GiB: fits", of the rank that needs most;
/// `needs` by pipeline rank.
std::string fit_text(const Scenario& scenario, const std::vector<RankNeed>& needs);

}  // namespace pipeledger
