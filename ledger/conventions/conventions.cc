#include "ledger/conventions/conventions.h"

#include <fmt/format.h>

#include <array>

#include "base/check.h"
#include "ledger/conventions/calculator.h"
#include "ledger/conventions/korthikanti.h"
#include "ledger/conventions/megatron.h"
#include "ledger/conventions/train_ledger.h"
#include "spec/names.h"

namespace pipeledger {
namespace {

struct Words {
  std::string_view counts, leaves_out;
};

// In the order of Convention.
constexpr std::array<Words, 5> kWords = {{
    {"each parameter and each saved tensor as this rank holds it, times what the schedule has in "
     "flight",
     "temporaries inside a layer, CUDA context, NCCL, allocator slack"},
    {"parameters by formula, 18 or 6 + 12/d bytes each; L layers of one width, the first stage's "
     "microbatches in flight",
     "biases, context parallelism, uneven splits, full recompute, experts' activations, every "
     "stage "
     "but the first (the last has here the schedule's microbatches, and its logits)"},
    {"activations: equations 1 to 6, a 4h-wide MLP, dropout masks, fp32 logits",
     "weights, gradients, optimizer, grouped queries, f other than 4h, dropout off, workspace"},
    {"a whole dense model on one device: all parameters, one microbatch of 34 s b h a layer, 6 s b "
     "V of logits",
     "every parallel axis, recompute, experts, f other than 4h, dropout off"},
    {"weights, FP8 caches, fp32 gradients, sharded master weights, activations module by module, "
     "times VPP on every rank",
     "Adam's second moment, norms, MTP, latent attention, scores, microbatches in flight beyond "
     "VPP"},
}};

const Words& words(Convention convention) {
  const auto at = static_cast<std::size_t>(convention);
  PIPELEDGER_CHECK(at < kWords.size(), "convention={}", at);
  return kWords[at];
}

}  // namespace

Bytes ConventionPrices::of(const Layer& kind) const {
  const bool has_attention = std::holds_alternative<Attention>(kind.mixer) ||
                             std::holds_alternative<LatentAttention>(kind.mixer);
  if (has_attention && std::holds_alternative<DenseMlp>(kind.feed_forward)) return layer;
  if (has_attention && std::holds_alternative<Experts>(kind.feed_forward)) return moe_layer;
  throw InputError({{.field = "sim.convention",
                     .message = fmt::format("conventions know attention followed by an MLP or "
                                            "experts, and no {} layer; nearest legal: exact",
                                            name(kind))}});
}

void require_known_layers(const Scenario& scenario) {
  const LayerKinds layers(scenario);
  for (const Layer& layer : layers.kinds()) ConventionPrices{}.of(layer);
}

ConventionPrices convention_prices(const Scenario& scenario) {
  require_known_layers(scenario);
  switch (scenario.sim.convention) {
    case Convention::megatron:
      return megatron_prices(scenario);
    case Convention::korthikanti:
      return korthikanti_prices(scenario);
    case Convention::train_ledger:
      return train_ledger_prices(scenario);
    case Convention::calculator:
      return calculator_prices(scenario);
    case Convention::exact:
      break;
  }
  PIPELEDGER_CHECK(false, "the exact ledger has no prices by convention");
  return {};
}

std::string_view name(Convention convention) { return name_of(convention); }
std::string_view counts(Convention convention) { return words(convention).counts; }
std::string_view leaves_out(Convention convention) { return words(convention).leaves_out; }

}  // namespace pipeledger
