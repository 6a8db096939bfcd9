// What holds for every kind of mixer and feed-forward: its weights, its kernels and Megatron's
// count of its flops are three accounts of one thing. A new kind belongs in `cases`.
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>

#include "ledger/flops.h"
#include "ledger/parts/parameters.h"
#include "ledger/parts/parts.h"
#include "tests/ledger/models.h"

namespace pipeledger {
namespace {

/// A layer in a model of its own, with what is known of it from its paper's formulas.
struct Case {
  std::string name;
  Scenario scenario;
  Layer layer;
  std::int64_t num_parameters = 0;  // of the whole layer, norms included
  double uncounted = 0;  // flops that Megatron's count has beyond the GEMMs', of a whole microbatch
  /// Where Megatron's count of products of activations is not the kernels': what it is.
  std::optional<double> products = std::nullopt;
};

Scenario small(int t) {
  Model model = testing::llama(4, 256, 512, 8);
  model.kv_channels = 32;
  model.vocab_size = model.padded_vocab_size = 1024;
  Scenario scenario = testing::scenario(model, t);
  scenario.train.seq_length = 64;
  scenario.train.micro_batch_size = 2;
  return scenario;
}
constexpr std::int64_t kH = 256, kF = 512, kQ = 8 * 32;
constexpr double kTokens = 2 * 64;

/// Experts of 64 over EP 2 and ETP t, two shared ones, every token to two of four.
Scenario with_experts(int t) {
  Scenario scenario = small(t);
  scenario.model.moe = MixtureOfExperts{.num_experts = 4,
                                        .ffn_hidden_size = 64,
                                        .shared_expert_intermediate_size = 128,
                                        .layers = {true, true, true, true}};
  scenario.parallel.data_parallel_size = 2;
  scenario.parallel.expert_model_parallel_size = 2;
  scenario.parallel.expert_tensor_parallel_size = t;
  scenario.train.moe_token_dispatcher_type = MoeTokenDispatcherType::alltoall;
  scenario.train.moe_grouped_gemm = true;
  return scenario;
}

Scenario latent(int t, std::int64_t q_lora_rank) {
  Scenario scenario = small(t);
  scenario.model.qk_layernorm = true;
  scenario.model.mla = MultiLatentAttention{.q_lora_rank = q_lora_rank,
                                            .kv_lora_rank = 32,
                                            .qk_head_dim = 16,
                                            .qk_pos_emb_head_dim = 8,
                                            .v_head_dim = 20};
  return scenario;
}

/// 8 heads of 64, which is twice the hidden state, in 2 groups, with states of 16.
Scenario with_mamba(int t) {
  Scenario scenario = small(t);
  scenario.model.mamba = Mamba2{.state_dim = 16, .head_dim = 64, .num_groups = 2, .num_heads = 8};
  return scenario;
}

/// 2 key heads of 32, 4 value heads of 64.
Scenario with_delta_net(int t) {
  Scenario scenario = small(t);
  scenario.model.linear_attention = LinearAttention{
      .key_head_dim = 32, .value_head_dim = 64, .num_key_heads = 2, .num_value_heads = 4};
  return scenario;
}

std::vector<Case> cases(int t) {
  std::vector<Case> list;
  const std::int64_t groups = 8 * 32;  // keys, and values, of as many groups as heads
  list.push_back(
      {"attention", small(t), {Attention{}, None{}}, kH + 2 * kH * kQ + 2 * kH * groups});
  Scenario grouped = small(t);
  grouped.model.num_query_groups = 2;
  list.push_back(
      {"grouped queries", grouped, {Attention{}, None{}}, kH + 2 * kH * kQ + 2 * kH * 2 * 32});
  list.push_back(
      {"a window", grouped, {Attention{.window = 15}, None{}}, kH + 2 * kH * kQ + 2 * kH * 2 * 32});
  Scenario gated = small(t);
  gated.model.attention_output_gate = true;
  gated.model.qk_layernorm = true;
  list.push_back({"an output gate",
                  gated,
                  {Attention{}, None{}},
                  kH + 3 * kH * kQ + 2 * kH * groups + 2 * 32});
  Scenario with_sinks = grouped;
  with_sinks.model.softmax_type = SoftmaxType::learnable;
  list.push_back({"sinks",
                  with_sinks,
                  {Attention{}, None{}},
                  kH + 2 * kH * kQ + 2 * kH * 2 * 32 + 8});
  list.push_back({"chunks",
                  grouped,
                  {Attention{.chunk = 24, .no_rope = true}, None{}},
                  kH + 2 * kH * kQ + 2 * kH * 2 * 32});
  // Dao and Gu 2024: projections of z, x, B, C and dt and back, a convolution of 4 with biases, and
  // three numbers a head. Megatron counts 7 flops for each element of the states.
  const std::int64_t inner = 512, states = 2 * 16;
  list.push_back({"Mamba-2",
                  with_mamba(t),
                  {Mamba{}, None{}},
                  kH + kH * (2 * inner + 2 * states + 8) + 5 * (inner + 2 * states) + 3 * 8 +
                      inner + inner * kH,
                  0,
                  7 * kTokens * 512 * 16});
  // Yang et al. 2024: projections of q, k, v, gate, beta and alpha, and back. Megatron counts the
  // convolution, and four products of a state.
  const std::int64_t keys = 64, values = 256;
  list.push_back({"gated delta net",
                  with_delta_net(t),
                  {GatedDeltaNet{}, None{}},
                  kH + kH * (2 * keys + 2 * values + 2 * 4) + 4 * (2 * keys + values) + 2 * 4 +
                      64 + values * kH,
                  2 * kTokens * 4 * (2 * keys + values),
                  2 * kTokens * 4 * values * 64});
  // Megatron counts a multiplication by each element of the narrow norms.
  const std::int64_t key_value = kH * (32 + 8) + 32 + 32 * 8 * (16 + 20);
  list.push_back({"latent attention",
                  latent(t, 96),
                  {LatentAttention{}, None{}},
                  kH + kH * 96 + 96 + 96 * 8 * 24 + key_value + 8 * 20 * kH,
                  2 * kTokens * (96 + 32)});
  list.push_back({"latent attention with whole queries",
                  latent(t, 0),
                  {LatentAttention{}, None{}},
                  kH + kH * 8 * 24 + key_value + 8 * 20 * kH,
                  2 * kTokens * 32});
  list.push_back({"an MLP", small(t), {None{}, DenseMlp{}}, kH + 3 * kH * kF});
  Scenario plain = small(t);
  plain.model.swiglu = false;
  list.push_back({"an MLP without a gate", plain, {None{}, DenseMlp{}}, kH + 2 * kH * kF});
  // Megatron leaves the router out.
  const std::int64_t experts = kH + kH * 4 + 4 * 3 * kH * 64 + 3 * kH * 128;
  list.push_back({"experts", with_experts(t), {None{}, Experts{}}, experts, -2 * kTokens * kH * 4});
  Scenario narrow = with_experts(t);
  narrow.model.moe->latent_size = 128;
  list.push_back({"experts in a narrow space",
                  narrow,
                  {None{}, Experts{}},
                  experts - 4 * 3 * (kH - 128) * 64 + 2 * kH * 128,
                  -2 * kTokens * kH * 4});
  Scenario each = with_experts(t);
  each.train.moe_grouped_gemm = false;
  list.push_back({"experts one by one", each, {None{}, Experts{}}, experts, -2 * kTokens * kH * 4});
  return list;
}

template <class Check>
void for_each_case(Check&& check) {
  for (const int t : {1, 2}) {
    for (const Case& each : cases(t)) {
      SCOPED_TRACE(::testing::Message() << each.name << " t=" << t);
      check(each);
    }
  }
}

TEST(LayerLaws, RanksTogetherHoldTheWholeLayer) {
  for_each_case([](const Case& each) {
    const Parallel& parallel = each.scenario.parallel;
    std::int64_t sum = 0;
    for (const Weight& weight : layer_parameters(each.scenario, each.layer).weights) {
      const int cut = weight.expert ? parallel.expert_tensor_parallel_size
                                    : parallel.tensor_model_parallel_size;
      sum += weight.numel * (weight.tensor_parallel ? cut : 1) *
             (weight.expert ? parallel.expert_model_parallel_size : 1);
    }
    EXPECT_EQ(sum, each.num_parameters);
  });
}

TEST(LayerLaws, NoTwoParametersShareAName) {
  for_each_case([](const Case& each) {
    Scenario scenario = each.scenario;
    scenario.model.add_bias_linear = true;
    std::set<std::string> names;
    const auto listed = layer_parameters(scenario, each.layer).weights;
    for (const Weight& weight : listed)
      names.insert(std::string(weight.module) + "." + std::string(weight.name) +
                   std::to_string(weight.number));
    EXPECT_EQ(names.size(), listed.size());
  });
}

/// Rows of activations that a weight of this rank meets.
double rows_of(const Scenario& scenario, const Weight& weight, std::int64_t num_local_experts) {
  const Shape shape = shape_of(scenario);
  if (!weight.expert)
    return static_cast<double>(weight.tensor_parallel ? shape.tokens() : shape.region_tokens());
  const double sent = static_cast<double>(shape.region_tokens()) * scenario.model.moe->router_topk;
  return sent * scenario.parallel.expert_tensor_parallel_size /
         static_cast<double>(num_local_experts);
}

/// 2 * rows * elements of every matrix that is multiplied by.
double flops_of_weights(const Scenario& scenario, const std::vector<Weight>& weights) {
  const std::int64_t num_local =
      scenario.model.moe
          ? scenario.model.moe->num_experts / scenario.parallel.expert_model_parallel_size
          : 1;
  double sum = 0;
  for (const Weight& weight : weights) {
    if (weight.role == ParameterRole::vector) continue;
    sum += 2 * rows_of(scenario, weight, num_local) * static_cast<double>(weight.numel);
  }
  return sum;
}

/// Products of activations with each other.
bool is_of_activations(const Kernel& kernel) {
  return kernel.name.starts_with("core_attention") || kernel.name.starts_with("scan.") ||
         kernel.name.starts_with("delta_rule.");
}

double flops_of(const std::vector<Kernel>& kernels, bool of_attention) {
  double sum = 0;
  for (const Kernel& kernel : kernels)
    if (is_of_activations(kernel) == of_attention) sum += kernel.flops.value();
  return sum;
}

TEST(LayerLaws, GemmsMultiplyByTheWeightsThatAreListed) {
  for_each_case([](const Case& each) {
    const Tape tape = layer_tape(each.scenario, {each.layer});
    const PartWork runs = work(tape);
    const double forward = flops_of_weights(each.scenario, tape.weights());
    EXPECT_DOUBLE_EQ(flops_of(runs.forward, false), forward);
    EXPECT_DOUBLE_EQ(flops_of(runs.backward, false), 2 * forward);
  });
}

TEST(LayerLaws, AFrozenLayerHasNoWeightGradients) {
  for_each_case([](const Case& each) {
    Scenario scenario = each.scenario;
    scenario.model.freeze_language_model = true;
    const Tape tape = layer_tape(scenario, {each.layer});
    const double forward = flops_of_weights(scenario, tape.weights());
    EXPECT_DOUBLE_EQ(flops_of(work(tape).backward, false), forward);
    EXPECT_EQ(tape.num_trained_parameters(), 0);
  });
}

TEST(LayerLaws, MegatronsCountIsThatOfTheKernels) {
  for_each_case([](const Case& each) {
    const ForwardFlops counted = layer_flops(each.scenario, each.layer, microbatch(each.scenario));
    const PartWork runs = work(layer_tape(each.scenario, {each.layer}));
    const double t = each.scenario.parallel.tensor_model_parallel_size;
    EXPECT_DOUBLE_EQ(counted.products.value(),
                     each.products.value_or(t * flops_of(runs.forward, true)));
    EXPECT_DOUBLE_EQ((counted.all - counted.products).value(),
                     t * flops_of(runs.forward, false) + each.uncounted);
  });
}

// A layer of a hybrid model is either of the two, and each is what it is in a whole layer.
TEST(LayerLaws, ALayerIsItsMixerAndThenItsFeedForward) {
  for (const int t : {1, 2}) {
    const std::vector<Case> all = cases(t);
    for (const Case& first : all) {
      for (const Case& second : all) {
        if (std::holds_alternative<None>(first.layer.mixer)) continue;
        if (std::holds_alternative<None>(second.layer.feed_forward)) continue;
        Scenario scenario = second.scenario;
        scenario.model.mla = first.scenario.model.mla;
        scenario.model.num_query_groups = first.scenario.model.num_query_groups;
        scenario.model.softmax_type = first.scenario.model.softmax_type;
        scenario.model.mamba = first.scenario.model.mamba;
        scenario.model.linear_attention = first.scenario.model.linear_attention;
        SCOPED_TRACE(::testing::Message() << first.name << ", " << second.name << " t=" << t);
        const Tape whole = layer_tape(scenario, {{first.layer.mixer, second.layer.feed_forward}});
        const Tape mixer = layer_tape(scenario, {first.layer});
        const Tape block = layer_tape(scenario, {second.layer});
        EXPECT_EQ(whole.num_parameters(), mixer.num_parameters() + block.num_parameters());
        EXPECT_EQ(whole.num_nodes(), mixer.num_nodes() + block.num_nodes());
        EXPECT_EQ(play(whole).kept, play(mixer).kept + play(block).kept);
        EXPECT_EQ(work(whole).forward.size(),
                  work(mixer).forward.size() + work(block).forward.size());
      }
    }
  }
}

TEST(LayerLaws, WeightsAloneAreThoseOfTheWholeTape) {
  for_each_case([](const Case& each) {
    const Tape all = layer_tape(each.scenario, {each.layer});
    const Tape alone = layer_tape(each.scenario, {each.layer}, Takes::weights);
    EXPECT_EQ(all.num_parameters(), alone.num_parameters());
    EXPECT_EQ(all.buffer_bytes(), alone.buffer_bytes());
    EXPECT_EQ(alone.num_nodes(), 0);
  });
}

// Of the whole model: sum over pipeline stages and ranks of what is listed.
TEST(LayerLaws, TheModelIsItsLayersAndItsEnds) {
  for (const int t : {1, 2}) {
    for (const int p : {1, 2, 4}) {
      for (const bool has_mtp : {false, true}) {
        SCOPED_TRACE(::testing::Message() << "t=" << t << " p=" << p << " mtp=" << has_mtp);
        Scenario scenario = with_experts(t);
        scenario.model.moe->layers[0] = false;
        scenario.parallel.pipeline_model_parallel_size = p;
        scenario.model.mtp_num_layers = has_mtp ? 1 : 0;
        const Parallel& parallel = scenario.parallel;
        std::int64_t sum = 0;
        for (const StageLayout& stage : stage_layouts(scenario)) {
          for (const Parameter& parameter : parameters(scenario, stage)) {
            const int cut = parameter.expert ? parallel.expert_tensor_parallel_size : t;
            sum += parameter.numel * (parameter.tensor_parallel ? cut : 1) *
                   (parameter.expert ? parallel.expert_model_parallel_size : 1);
          }
        }
        const std::int64_t attention = kH + 4 * kH * kQ;
        const std::int64_t experts = kH + kH * 4 + 4 * 3 * kH * 64 + 3 * kH * 128;
        const std::int64_t vocabulary = 1024 * kH;
        const std::int64_t mtp = 3 * kH + 2 * kH * kH + attention + experts;
        // Behind the first stage the MTP layer has a copy of the word embedding.
        const std::int64_t copy = p > 1 ? vocabulary : 0;
        EXPECT_EQ(sum, 4 * attention + 3 * experts + kH + 3 * kH * kF + 2 * vocabulary + kH +
                           (has_mtp ? mtp + copy : 0));
      }
    }
  }
}

TEST(LayerLaws, AnMtpLayerIsTheLastOneWithoutItsWindow) {
  Scenario scenario = with_experts(1);
  scenario.model.window_size = 15;
  scenario.model.window_layers.assign(4, true);
  EXPECT_EQ(layer_of(scenario, 3), (Layer{Attention{.window = 15}, Experts{}}));
  EXPECT_EQ(mtp_layer(scenario), (Layer{Attention{}, Experts{}}));
  scenario.model.mla = MultiLatentAttention{};
  scenario.model.moe->layers[3] = false;
  EXPECT_EQ(layer_of(scenario, 3), (Layer{LatentAttention{.window = 15}, DenseMlp{}}));
  EXPECT_EQ(mtp_layer(scenario), (Layer{LatentAttention{}, DenseMlp{}}));
  EXPECT_EQ(name(mtp_layer(scenario)), "dense");
  EXPECT_EQ(name({Attention{}, None{}}), "attention");
  EXPECT_EQ(name({None{}, Experts{}}), "moe");
}

TEST(LayerLaws, EqualLayersAreOneKind) {
  Scenario scenario = with_experts(1);
  scenario.model.moe->layers = {false, true, false, true};
  const LayerKinds layers(scenario);
  EXPECT_EQ(layers.kinds().size(), 2u);
  EXPECT_EQ(layers.count(0), 2);
  EXPECT_EQ(layers.kind_of(0), layers.kind_of(2));
  EXPECT_EQ(layers.kinds()[layers.kind_of(3)], layer_of(scenario, 3));
  EXPECT_EQ(LayerKinds(scenario, 1, 1).kind_of(1), 0u);
}

}  // namespace
}  // namespace pipeledger
