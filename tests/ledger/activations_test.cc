#include <gtest/gtest.h>

#include "ledger/conventions/korthikanti.h"
#include "ledger/ledger.h"
#include "tests/ledger/models.h"

namespace pipeledger {
namespace {

using ::testing::Message;

/// What the Korthikanti paper assumes: heads with keys of their own, f = 4h, GeLU, LayerNorm,
/// dropout everywhere, 16 bit, scores in memory.
Model paper_model(std::int64_t hidden, std::int64_t heads) {
  return {.num_layers = 4,
          .hidden_size = hidden,
          .ffn_hidden_size = 4 * hidden,
          .num_attention_heads = heads,
          .num_query_groups = heads,
          .kv_channels = hidden / heads,
          .vocab_size = 1024,
          .padded_vocab_size = 1024,
          .add_bias_linear = true,
          .hidden_dropout = 0.1,
          .attention_dropout = 0.1};
}

/// Bytes of one layer without its statistics: all, or what recompute leaves.
double layer_bytes(const Scenario& scenario) {
  double sum = 0;
  for (const SavedTensor& tensor : layer_tensors(scenario)) {
    if (!tensor.statistic && !tensor.recomputed) sum += static_cast<double>(tensor.bytes().value());
  }
  return sum;
}

template <class Check>
void over_paper_shapes(Check&& check) {
  for (const std::int64_t s : {64, 512, 2048}) {
    for (const std::int64_t b : {1, 2, 3}) {
      for (const std::int64_t hidden : {256, 1024, 6144}) {
        for (const std::int64_t heads : {8, 16, 64}) {
          for (const int t : {1, 2, 4, 8}) {
            SCOPED_TRACE(Message() << "s=" << s << " b=" << b << " h=" << hidden << " a=" << heads
                                   << " t=" << t);
            Scenario scenario = testing::scenario(paper_model(hidden, heads), t);
            scenario.parallel.sequence_parallel = false;
            scenario.train.seq_length = s;
            scenario.train.micro_batch_size = b;
            scenario.train.attention_backend = AttentionBackend::unfused;
            check(scenario);
          }
        }
      }
    }
  }
}

TEST(Activations, OneDeviceIsEquation1OfKorthikanti) {
  over_paper_shapes([](const Scenario& scenario) {
    if (scenario.parallel.tensor_model_parallel_size > 1) return;
    EXPECT_EQ(layer_bytes(scenario), korthikanti_layer(scenario));
  });
}

TEST(Activations, TensorParallelIsEquation2OfKorthikanti) {
  over_paper_shapes([](const Scenario& scenario) {
    EXPECT_EQ(layer_bytes(scenario), korthikanti_layer_tensor_parallel(scenario));
  });
}

TEST(Activations, SequenceParallelIsEquation4OfKorthikanti) {
  over_paper_shapes([](Scenario scenario) {
    scenario.parallel.sequence_parallel = true;
    EXPECT_EQ(layer_bytes(scenario), korthikanti_layer_sequence_parallel(scenario));
  });
}

TEST(Activations, SelectiveRecomputeIsEquation6OfKorthikanti) {
  over_paper_shapes([](Scenario scenario) {
    scenario.parallel.sequence_parallel = true;
    scenario.train.recompute_granularity = RecomputeGranularity::selective;
    EXPECT_EQ(layer_bytes(scenario), korthikanti_layer_selective(scenario));
  });
}

TEST(Activations, FlashAttentionLeavesWhatSelectiveRecomputeLeaves) {
  over_paper_shapes([](Scenario scenario) {
    scenario.parallel.sequence_parallel = true;
    scenario.train.attention_backend = AttentionBackend::fused;
    EXPECT_EQ(layer_bytes(scenario), korthikanti_layer_selective(scenario));
  });
}

TEST(Activations, FullRecomputeKeepsTheLayersInput) {
  over_paper_shapes([](Scenario scenario) {
    scenario.train.recompute_granularity = RecomputeGranularity::full;
    EXPECT_EQ(layer_bytes(scenario), korthikanti_layer_full_recompute(scenario));
    scenario.parallel.sequence_parallel = true;
    EXPECT_EQ(layer_bytes(scenario), korthikanti_layer_full_recompute(scenario) /
                                         scenario.parallel.tensor_model_parallel_size);
  });
}

TEST(Activations, HeadIsTheOutputTermOfKorthikanti) {
  over_paper_shapes([](Scenario scenario) {
    scenario.parallel.sequence_parallel = true;
    const Model& model = scenario.model;
    double sum = 0;
    for (const SavedTensor& tensor : head_tensors(scenario)) {
      if (!tensor.statistic) sum += static_cast<double>(tensor.bytes().value());
    }
    const double tokens =
        static_cast<double>(scenario.train.seq_length * scenario.train.micro_batch_size);
    EXPECT_EQ(sum, 4 * tokens * static_cast<double>(model.hidden_size + model.padded_vocab_size) /
                       scenario.parallel.tensor_model_parallel_size);
  });
}

std::string text(const std::vector<SavedTensor>& tensors) {
  std::string out;
  for (const SavedTensor& tensor : tensors) {
    out += tensor.name + " [";
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
      out += (i > 0 ? "," : "") + std::to_string(tensor.shape[i]);
    }
    out += "] x" + std::to_string(tensor.element_bytes);
    out += tensor.cut == Cut::none ? "" : tensor.cut == Cut::tensor_parallel ? " TP" : " SP";
    out += std::string(tensor.statistic ? " statistic" : "") +
           (tensor.recomputed ? " recomputed\n" : "\n");
  }
  return out;
}

TEST(Activations, ALayerOfLlama3OnTwoRanks) {
  EXPECT_EQ(text(layer_tensors(testing::source_000())),
            "input_layernorm.input [2048,2,4096] x2 SP\n"
            "input_layernorm.statistics [2048,2] x4 SP statistic\n"
            "linear_qkv.input [2048,2,4096] x2 SP\n"
            "core_attention.query [4096,2,2048] x2 TP\n"
            "core_attention.key [4096,2,512] x2 TP\n"
            "core_attention.value [4096,2,512] x2 TP\n"
            "core_attention.log_sum_exp [2,16,4096] x4 TP statistic recomputed\n"
            "linear_proj.input [4096,2,2048] x2 TP\n"
            "pre_mlp_layernorm.input [2048,2,4096] x2 SP\n"
            "pre_mlp_layernorm.statistics [2048,2] x4 SP statistic\n"
            "linear_fc1.input [2048,2,4096] x2 SP\n"
            "activation.input [4096,2,14336] x2 TP\n"
            "linear_fc2.input [4096,2,7168] x2 TP\n");
}

TEST(Activations, ALayerWithScoresInMemoryUnderSelectiveRecompute) {
  Scenario scenario = testing::scenario(testing::gpt3_175b(), 8);
  scenario.parallel.sequence_parallel = false;
  scenario.train.seq_length = 2048;
  scenario.train.attention_backend = AttentionBackend::unfused;
  scenario.train.recompute_granularity = RecomputeGranularity::selective;
  EXPECT_EQ(text(layer_tensors(scenario)),
            "input_layernorm.input [2048,1,12288] x2\n"
            "input_layernorm.statistics [2048,1,2] x4 statistic\n"
            "linear_qkv.input [2048,1,12288] x2\n"
            "core_attention.query [2048,1,1536] x2 TP\n"
            "core_attention.key [2048,1,1536] x2 TP\n"
            "core_attention.value [2048,1,1536] x2 TP\n"
            "core_attention.softmax_output [1,12,2048,2048] x2 TP recomputed\n"
            "core_attention.dropout_mask [1,12,2048,2048] x1 TP recomputed\n"
            "core_attention.dropout_output [1,12,2048,2048] x2 TP recomputed\n"
            "linear_proj.input [2048,1,1536] x2 TP\n"
            "self_attention.dropout_mask [2048,1,12288] x1\n"
            "pre_mlp_layernorm.input [2048,1,12288] x2\n"
            "pre_mlp_layernorm.statistics [2048,1,2] x4 statistic\n"
            "linear_fc1.input [2048,1,12288] x2\n"
            "activation.input [2048,1,6144] x2 TP\n"
            "linear_fc2.input [2048,1,6144] x2 TP\n"
            "mlp.dropout_mask [2048,1,12288] x1\n");
}

TEST(Activations, WithoutDropoutThereIsNoMask) {
  Scenario scenario = testing::scenario(paper_model(1024, 16));
  scenario.train.attention_backend = AttentionBackend::unfused;
  scenario.model.hidden_dropout = 0;
  scenario.model.attention_dropout = 0;
  for (const auto& tensors : {layer_tensors(scenario), embedding_tensors(scenario)}) {
    for (const SavedTensor& tensor : tensors) {
      EXPECT_EQ(tensor.name.find("dropout"), std::string::npos) << tensor.name;
    }
  }
}

TEST(Activations, NormedHeadsKeepTheirInputs) {
  Scenario scenario = testing::scenario(testing::llama3_8b(), 2);
  const double plain = layer_bytes(scenario);
  scenario.model.qk_layernorm = true;
  // Queries and keys before their norms, 16 bit.
  EXPECT_EQ(layer_bytes(scenario) - plain, 2.0 * 8192 * (2048 + 512));
}

TEST(Activations, Fp32DoublesAllButMasks) {
  Scenario scenario = testing::scenario(paper_model(1024, 16));
  const double half = layer_bytes(scenario);
  scenario.train.precision = Precision::fp32;
  EXPECT_EQ(layer_bytes(scenario), 2 * half - 2.0 * 8192 * 1024);
}

}  // namespace
}  // namespace pipeledger
