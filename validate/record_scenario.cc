#include "validate/record_scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>

#include "base/text.h"

namespace pipeledger {
namespace {

using nlohmann::json;

/// Why a record cannot be said as a scenario.
struct Skip {
  std::string reason;
};

/// One section of a record; remembers which of its keys were read.
class Section {
 public:
  Section(const json& record, const char* name) : name_(name) {
    if (record.contains(name)) content_ = record.at(name);
  }

  bool has(const std::string& key) {
    read_.insert(key);
    return content_.contains(key) && !content_.at(key).is_null();
  }

  template <typename T>
  std::optional<T> get(const std::string& key) {
    if (!has(key)) return std::nullopt;
    return content_.at(key).get<T>();
  }

  json take(const std::string& key) {
    if (!has(key)) throw Skip{fmt::format("{}.{} is not known", name_, key)};
    return content_.at(key);
  }

  /// Keys that say nothing about memory or time.
  void ignore(std::initializer_list<const char*> keys) { read_.insert(keys.begin(), keys.end()); }

  void refuse_unread() const {
    for (const auto& [key, value] : content_.items()) {
      if (!read_.contains(key)) {
        throw Skip{
            fmt::format("{}.{}: {} has no counterpart in a scenario", name_, key, value.dump())};
      }
    }
  }

 private:
  const char* name_;
  json content_ = json::object();
  std::set<std::string> read_;
};

/// Builds the scenario, section by section, noting what it had to assume.
class Builder {
 public:
  explicit Builder(const json& record)
      : record_(record),
        model_(record, "model"),
        parallel_(record, "parallel"),
        train_(record, "train"),
        hardware_(record, "hardware") {}

  RecordScenario build() {
    refuse_open_questions();
    read_model();
    read_parallel();
    read_train();
    read_hardware();
    for (const Section* section : {&model_, &parallel_, &train_, &hardware_}) {
      section->refuse_unread();
    }
    return {.text = scenario_.dump(),
            .assumed = std::move(assumed_),
            .is_cluster_known = is_cluster_known_};
  }

 private:
  /// Values of these two are guesses where the source leaves them open, and memory hangs on them.
  void refuse_open_questions() const {
    if (!record_.contains("unknown")) return;
    for (const json& entry : record_.at("unknown")) {
      const auto text = entry.get<std::string>();
      if (text.starts_with("micro_batch") || text.starts_with("recompute")) {
        throw Skip{fmt::format("the source leaves open: {}", text)};
      }
    }
  }

  void assume(const std::string& field, json value, std::string_view why) {
    assumed_.push_back(fmt::format("{} {}: {}", field, value.dump(), why));
    scenario_[json::json_pointer("/" + slashes(field))] = std::move(value);
  }

  /// A number of heads that TP divides, nearest to heads 128 wide.
  static std::int64_t likely_heads(std::int64_t hidden, int tp) {
    std::int64_t best = tp;
    for (std::int64_t heads = tp; heads <= hidden; heads += tp) {
      if (hidden % heads != 0) continue;
      if (std::abs(hidden / heads - 128) < std::abs(hidden / best - 128)) best = heads;
    }
    return best;
  }

  static std::string slashes(std::string field) {
    std::replace(field.begin(), field.end(), '.', '/');
    return field;
  }

  static void copy(Section& from, const char* key, json& to, const char* field) {
    if (from.has(key)) to[field] = from.take(key);
  }

  void read_model() {
    json& model = scenario_["model"];
    model_.ignore({"name", "dims_from", "note"});
    model["num_layers"] = model_.take("L");
    model["hidden_size"] = model_.take("h");
    if (model_.has("a")) {
      model["num_attention_heads"] = model_.take("a");
    } else {
      assume("model.num_attention_heads",
             likely_heads(model.at("hidden_size"), parallel_.get<int>("tp").value_or(1)),
             "unknown; heads nearest to 128 wide");
    }
    copy(model_, "g", model, "num_query_groups");
    copy(model_, "head_dim", model, "kv_channels");
    if (model_.has("ffn")) model["ffn_hidden_size"] = model_.take("ffn");
    const bool swiglu = model_.take("act").get<std::string>() == "swiglu";
    const bool rms = model_.take("norm").get<std::string>() == "rmsnorm";
    model["swiglu"] = swiglu;
    model["normalization"] = rms ? "RMSNorm" : "LayerNorm";
    model["add_bias_linear"] = !swiglu;
    copy(model_, "qk_layernorm", model, "qk_layernorm");
    read_vocabulary();
    read_positions(swiglu);
    read_experts();
    read_latent_attention();
  }

  void read_vocabulary() {
    json& model = scenario_["model"];
    if (model_.has("V")) {
      std::int64_t vocab = model_.take("V");
      // SimuMax starts Megatron with --tokenizer-type NullTokenizer, which adds an end-of-document
      // token to --vocab-size (megatron/training/tokenizer).
      if (record_.value("family", "") == "simumax") {
        assume("model.vocab_size", ++vocab, "NullTokenizer adds one token");
      }
      model["vocab_size"] = vocab;
    } else {
      assume("model.vocab_size", 50257, "unknown; GPT-2's");
    }
    if (model_.has("tied")) {
      model["untie_embeddings_and_output_weights"] = !model_.take("tied").get<bool>();
    } else {
      assume("model.untie_embeddings_and_output_weights", false, "unknown; Megatron's default");
    }
  }

  void read_positions(bool swiglu) {
    json& model = scenario_["model"];
    const std::string position =
        model_.get<std::string>("position").value_or(swiglu ? "rope" : "learned");
    // Slopes of ALiBi are a number a head; like rotary embeddings they have no table of weights.
    const bool learned = position == "learned";
    model["position_embedding_type"] = learned ? "learned_absolute" : "rope";
    if (learned) model["max_position_embeddings"] = model_.take("S");
    if (model_.has("dropout")) {
      model["hidden_dropout"] = model["attention_dropout"] = model_.take("dropout");
    } else if (record_.value("family", "") == "simumax") {
      model["hidden_dropout"] = model["attention_dropout"] = 0;  // its launchers
    } else {
      const double dropout = swiglu ? 0 : 0.1;
      const std::string why =
          swiglu ? "unknown; as in recipes of these models" : "unknown; Megatron's default";
      assume("model.hidden_dropout", dropout, why);
      assume("model.attention_dropout", dropout, why);
    }
  }

  void read_experts() {
    if (!model_.has("moe")) return;
    json& model = scenario_["model"];
    json moe = model_.take("moe");
    const int num_layers = model.at("num_layers");
    const auto take = [&](const char* key, json fallback) {
      json value = moe.value(key, std::move(fallback));
      moe.erase(key);
      return value;
    };
    model["num_experts"] = take("experts", nullptr);
    model["moe_router_topk"] = take("topk", nullptr);
    model["moe_ffn_hidden_size"] = take("moe_ffn", nullptr);
    if (const json shared = take("shared_ffn", 0); shared != 0) {
      model["moe_shared_expert_intermediate_size"] = shared;
    }
    const int first_dense = take("first_dense", 0);
    model["moe_layer_freq"] = fmt::format("([0]*{}+[1]*{})", first_dense, num_layers - first_dense);
    if (const json dense = take("dense_ffn", nullptr); !dense.is_null()) {
      model["ffn_hidden_size"] = dense;
    } else if (!model.contains("ffn_hidden_size")) {
      model["ffn_hidden_size"] = model["moe_ffn_hidden_size"];  // no layer is dense
    }
    if (!moe.empty()) throw Skip{"model.moe says " + moe.dump()};
  }

  void read_latent_attention() {
    if (!model_.has("mla")) return;
    json& model = scenario_["model"];
    const json mla = model_.take("mla");
    model["multi_latent_attention"] = true;
    model.erase("num_query_groups");
    const auto set = [&](const char* key, const char* field) {
      if (mla.contains(key) && !mla.at(key).is_null()) model[field] = mla.at(key);
    };
    set("q_lora", "q_lora_rank");
    set("kv_lora", "kv_lora_rank");
    set("qk_nope", "qk_head_dim");
    set("qk_rope", "qk_pos_emb_head_dim");
    set("v_head", "v_head_dim");
    // Both of DeepSeek's compressed vectors are normalized.
    model["qk_layernorm"] = true;
  }

  void read_parallel() {
    json& parallel = scenario_["parallel"];
    parallel_.ignore({"stage_layers_note", "dp_strategy_note"});
    copy(parallel_, "tp", parallel, "tensor_model_parallel_size");
    copy(parallel_, "pp", parallel, "pipeline_model_parallel_size");
    copy(parallel_, "vpp", parallel, "virtual_pipeline_model_parallel_size");
    copy(parallel_, "dp", parallel, "data_parallel_size");
    copy(parallel_, "cp", parallel, "context_parallel_size");
    copy(parallel_, "ep", parallel, "expert_model_parallel_size");
    copy(parallel_, "etp", parallel, "expert_tensor_parallel_size");
    copy(parallel_, "sp", parallel, "sequence_parallel");
    if (parallel_.has("cp_comm")) parallel["cp_comm_type"] = parallel_.take("cp_comm");
    if (!scenario_["model"].contains("num_experts")) {
      parallel.erase("expert_model_parallel_size");
      parallel.erase("expert_tensor_parallel_size");
    } else if (!parallel.contains("expert_tensor_parallel_size")) {
      assume("parallel.expert_tensor_parallel_size", 1, "unknown; as in recipes of these models");
    }
    read_stage_layers();
    read_schedule();
    if (parallel_.has("zero_stage")) {
      scenario_["train"]["use_distributed_optimizer"] = parallel_.take("zero_stage").get<int>() > 0;
    }
  }

  void read_stage_layers() {
    json& parallel = scenario_["parallel"];
    // The Zero Bubble paper, section 5.1: one layer fewer on the first and the last stage.
    if (model_.has("stage_layers")) {
      if (model_.take("stage_layers") != "first and last stage hold one layer fewer") {
        throw Skip{"model.stage_layers is not understood"};
      }
      parallel["account_for_embedding_in_pipeline_split"] = true;
      parallel["account_for_loss_in_pipeline_split"] = true;
    }
    if (!parallel_.has("stage_layers")) return;
    std::string layout;
    const std::vector<int> layers = parallel_.get<std::vector<int>>("stage_layers").value();
    for (std::size_t i = 0; i < layers.size(); ++i) {
      layout += fmt::format("{}{}{}{}", i == 0 ? "" : "|", i == 0 ? "E" : "",
                            std::string(static_cast<std::size_t>(layers[i]), 't'),
                            i + 1 == layers.size() ? "L" : "");
    }
    parallel["pipeline_model_parallel_layout"] = layout;
  }

  void read_schedule() {
    const std::string schedule = parallel_.get<std::string>("schedule").value_or("1f1b");
    const std::pair<const char*, const char*> names[] = {
        {"1f1b", "auto"},   {"1F1B", "auto"},   {"1f1b (DeepSpeed)", "auto"},
        {"1F1B-I", "auto"}, {"ZB-1p", "zb-1p"}, {"ZB-2p", "zb-2p"},
        {"ZB-V", "zbv"},    {"ZB-H1", "zb-h1"}};
    const auto known = std::find_if(std::begin(names), std::end(names),
                                    [&](const auto& entry) { return schedule == entry.first; });
    if (known == std::end(names)) throw Skip{fmt::format("parallel.schedule is {}", schedule)};
    if (std::string_view(known->second) != "auto") scenario_["sim"]["schedule"] = known->second;
  }

  void read_train() {
    json& train = scenario_["train"];
    train_.ignore({"framework", "loss", "clip_grad", "mock_data", "phase", "alloc_conf", "flash",
                   "te", "apply_query_key_layer_scaling", "tp_comm_overlap", "moe_force_balance"});
    train["seq_length"] = model_.take("S");
    if (train_.has("micro_batch")) {
      train["micro_batch_size"] = train_.take("micro_batch");
    } else {
      throw Skip{"train.micro_batch is not known"};
    }
    read_batch();
    read_precision();
    read_recompute();
    read_attention();
    read_loss();
    read_optimizer();
    read_dispatcher();
    copy(train_, "overlap_grad_reduce", train, "overlap_grad_reduce");
    copy(train_, "overlap_param_gather", train, "overlap_param_gather");
    if (train_.has("overlap_p2p") &&
        scenario_["parallel"].value("virtual_pipeline_model_parallel_size", 1) > 1) {
      scenario_["sim"]["overlap_p2p_communication"] = train_.take("overlap_p2p");
    }
    copy(train_, "ep_overlap", train, "overlap_moe_expert_parallel_comm");
    copy(train_, "delay_wgrad", train, "delay_wgrad_compute");
  }

  void read_batch() {
    json& train = scenario_["train"];
    std::optional<std::int64_t> microbatches = train_.get<std::int64_t>("num_microbatches");
    const auto accumulated = train_.get<std::int64_t>("grad_accum");
    if (!microbatches) microbatches = accumulated;
    if (train_.has("global_batch")) {
      train["global_batch_size"] = train_.take("global_batch");
    } else if (microbatches) {
      train["global_batch_size"] = *microbatches * train.at("micro_batch_size").get<int>() *
                                   scenario_["parallel"].value("data_parallel_size", 1);
    } else {
      throw Skip{"train.global_batch is not known"};
    }
  }

  void read_precision() {
    json& train = scenario_["train"];
    const std::string precision = train_.take("precision");
    const bool fp16 = precision.starts_with("fp16");
    train["precision"] = fp16 ? "fp16" : "bf16";
    if (precision == "mixed 16-bit") {
      assume("train.precision", "bf16", "fp16 or bf16, unknown");
    } else if (precision.starts_with("fp8 current scaling")) {
      train["fp8_format"] = "hybrid";
      train["fp8_recipe"] = "tensorwise";
    } else if (!fp16 && precision != "bf16") {
      throw Skip{fmt::format("train.precision is {}", precision)};
    }
    // Megatron keeps fp32 gradients for bf16 and 16-bit ones for fp16, unless told otherwise.
    if (fp16) train["accumulate_allreduce_grads_in_fp32"] = false;
    if (train_.has("grad_dtype")) {
      train["accumulate_allreduce_grads_in_fp32"] = train_.take("grad_dtype") == "fp32";
    }
    if (train_.has("grads") && train_.take("grads") != "accumulate_allreduce_grads_in_fp32=False") {
      throw Skip{"train.grads is not understood"};
    }
  }

  /// none, full, selective, selective:module,module ...
  void read_recompute() {
    json& train = scenario_["train"];
    if (!train_.has("recompute")) throw Skip{"train.recompute is not known"};
    const std::string text = train_.take("recompute");
    if (text == "none") return;
    if (text == "full") {
      train["recompute_granularity"] = "full";
      assume("train.recompute_method", "uniform", "unknown; a layer a unit");
      train["recompute_num_layers"] = 1;
      return;
    }
    if (!text.starts_with("selective")) throw Skip{fmt::format("train.recompute is {}", text)};
    train["recompute_granularity"] = "selective";
    const std::size_t colon = text.find(':');
    if (colon == std::string::npos) return;
    json modules = json::array();
    std::string word;
    for (const char c : text.substr(colon + 1) + ",") {
      if (c != ',' && c != '+') {
        word += c;
      } else if (!word.empty()) {
        modules.push_back(std::exchange(word, ""));
      }
    }
    train["recompute_modules"] = modules;
  }

  void read_attention() {
    json& train = scenario_["train"];
    if (train_.has("flash_attn")) {
      // Else whose kernels they are hangs on the GPU.
      if (!train_.take("flash_attn").get<bool>()) train["attention_backend"] = "unfused";
    } else if (scenario_["model"].at("swiglu").get<bool>()) {
      assumed_.emplace_back(
          "train.attention_backend not unfused: unknown; as in recipes of these models");
    } else {
      // Megatron's forks of 2021 to 2023 with LayerNorm and GeLU write the scores to memory.
      assume("train.attention_backend", "unfused",
             "unknown; as in GPT runs before flash attention");
    }
  }

  /// SimuMax: --cross-entropy-loss-fusion --cross-entropy-fusion-impl te (its docs/strategy.md).
  void read_loss() {
    json& train = scenario_["train"];
    if (!train_.get<bool>("ce_fusion").value_or(false)) return;
    train["cross_entropy_loss_fusion"] = true;
    train["cross_entropy_fusion_impl"] = "te";
  }

  void read_optimizer() {
    json& train = scenario_["train"];
    if (train_.has("dist_opt")) {
      train["use_distributed_optimizer"] = train_.take("dist_opt");
    } else if (!train.contains("use_distributed_optimizer")) {
      assume("train.use_distributed_optimizer",
             scenario_["parallel"].value("data_parallel_size", 1) > 1,
             "unknown; on wherever there are replicas");
    }
    if (train_.get<std::string>("optimizer").value_or("adam") != "adam") {
      throw Skip{"train.optimizer is not adam"};
    }
    if (train_.get<std::string>("ddp_impl").value_or("local").find("local") != 0) {
      throw Skip{"train.ddp_impl is not understood"};
    }
    copy(train_, "grad_accum_fusion", train, "gradient_accumulation_fusion");
  }

  void read_dispatcher() {
    json& train = scenario_["train"];
    copy(train_, "moe_capacity_factor", train, "moe_expert_capacity_factor");
    copy(train_, "moe_pad_to_capacity", train, "moe_pad_expert_input_to_capacity");
    copy(train_, "grouped_gemm", train, "moe_grouped_gemm");
    for (const char* key : {"moe_dispatcher", "dispatcher"}) {
      if (!train_.has(key)) continue;
      const std::string dispatcher = train_.take(key);
      train["moe_token_dispatcher_type"] = dispatcher == "alltoall" ? "alltoall" : "flex";
    }
    if (train_.has("cuda_graph")) throw Skip{"train.cuda_graph: private pools are not modelled"};
    if (record_.value("family", "") == "simumax" && scenario_["model"].contains("num_experts")) {
      train["moe_permute_fusion"] = true;  // its launcher, run_pretrain_deepseekv2.sh
    }
  }

  void read_hardware() {
    hardware_.ignore({"software", "inter", "intra", "cluster", "n_nodes", "network", "nvlink"});
    static constexpr std::pair<std::string_view, std::string_view> kClusters[] = {
        {"A100-SXM4-80GB", "dgx-a100"},
        {"H100-SXM5-80GB", "dgx-h100"},
        {"B200-SXM", "dgx-b200"},
        {"GB200", "gb200-nvl72"},
        {"A100-SXM4-40GB", "dgx-a100-40gb"},
        {"H200-SXM5-141GB", "hgx-h200"},
    };
    const std::string gpu = hardware_.take("gpu");
    const auto known = std::find_if(std::begin(kClusters), std::end(kClusters),
                                    [&](const auto& entry) { return entry.first == gpu; });
    hardware_.has("n_gpus");
    const int per_node = hardware_.get<int>("gpus_per_node").value_or(8);
    json& cluster = scenario_["cluster"];
    if (known != std::end(kClusters)) {
      cluster["preset"] = known->second;
    } else {
      assume("cluster.preset", "dgx-a100", fmt::format("no preset for {}: no time compared", gpu));
      is_cluster_known_ = false;
    }
    if (per_node != 8 && known != std::end(kClusters) && known->second.starts_with("dgx")) {
      cluster["gpus_per_node"] = per_node;
      cluster["nics_per_node"] = per_node;
    }
  }

  const json& record_;
  Section model_, parallel_, train_, hardware_;
  json scenario_ = json::object();
  std::vector<std::string> assumed_;
  bool is_cluster_known_ = true;
};

}  // namespace

RecordScenario record_scenario(const nlohmann::json& record) {
  if (record.contains("train") && record.at("train").contains("megatron_args")) {
    return megatron_record_scenario(record);
  }
  try {
    return Builder(record).build();
  } catch (const Skip& skip) {
    return {.text = {}, .assumed = {}, .skipped = skip.reason};
  }
}

}  // namespace pipeledger
