#include "spec/hybrid_pattern.h"

#include <gmock/gmock.h>

#include "spec/layer_pattern.h"

namespace pipeledger {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(HybridPattern, IsALetterALayerAndAPipeAStage) {
  const HybridPattern pattern = parse_hybrid_pattern("M-M*|GE|");
  EXPECT_EQ(pattern.problem, "");
  EXPECT_EQ(pattern.layers, "M-M*GE");
  EXPECT_THAT(pattern.segments, ElementsAre(4, 2, 0));
}

TEST(HybridPattern, WithoutPipesIsOneStage) {
  EXPECT_THAT(parse_hybrid_pattern("MMM").segments, ElementsAre(3));
}

TEST(HybridPattern, RefusesWhatIsNotModelledByName) {
  EXPECT_THAT(parse_hybrid_pattern("MD").problem, HasSubstr("sparse attention (D)"));
  EXPECT_THAT(parse_hybrid_pattern("M+").problem, HasSubstr("latent attention (+)"));
  EXPECT_THAT(parse_hybrid_pattern("M*/MM").problem, HasSubstr("MTP layers (behind /)"));
  EXPECT_THAT(parse_hybrid_pattern("Mx").problem, HasSubstr("\"x\" is not a layer"));
  EXPECT_THAT(parse_hybrid_pattern("||").problem, HasSubstr("has no layers"));
}

// What pattern_from_ratios of Megatron-LM d98e8a64 (mc/models/hybrid/hybrid_layer_allocation.py)
// returns for these.
TEST(HybridPattern, OfRatiosIsMegatrons) {
  EXPECT_EQ(hybrid_pattern_of_ratios(8, 0, 0), "MMMMMMMM");
  EXPECT_EQ(hybrid_pattern_of_ratios(56, 0.08, 0.5),
            "M-M-M--M-M*-M-M-M-M--M*-M-M-M-M-M*--M-M-M-M-M*-M--M-M-M-");
  EXPECT_EQ(hybrid_pattern_of_ratios(24, 0.125, 0.0),
            "MMMMM*MMMMMM*MMMMM*MMMMM");
  EXPECT_EQ(hybrid_pattern_of_ratios(10, 0.25, 0.5),
            "M--*M-*-M-");
  EXPECT_EQ(hybrid_pattern_of_ratios(52, 0.0769, 0.4615),
            "M-M-M-M-M-*M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-*M-M-M-M-M-");
  EXPECT_EQ(hybrid_pattern_of_ratios(7, 0.5, 0.5),
            "-**-**-");
  EXPECT_EQ(hybrid_pattern_of_ratios(9, 0.0, 0.34),
            "MM-MM-MM-");
}

TEST(LayerPattern, OfLinearAttentionLeavesEveryNthLayerWithAttention) {
  EXPECT_THAT(parse_linear_attention_pattern("4", 8).layers,
              ElementsAre(true, true, true, false, true, true, true, false));
  EXPECT_THAT(parse_linear_attention_pattern("([1]*2+[0])*2", 6).layers,
              ElementsAre(true, true, false, true, true, false));
}

TEST(LayerPattern, OfNoRopeTakesEveryNthLayersPositions) {
  EXPECT_THAT(parse_no_rope_pattern("4", 8).layers,
              ElementsAre(false, false, false, true, false, false, false, true));
  EXPECT_THAT(parse_no_rope_pattern("[1,0,0]", 3).layers, ElementsAre(true, false, false));
  EXPECT_EQ(parse_no_rope_pattern("4", 6).problem, "4 does not divide num_layers 6");
}

}  // namespace
}  // namespace pipeledger
