#include "launch/megatron_mapping.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "base/override.h"
#include "base/text.h"
#include "launch/megatron_multimodal.h"
#include "spec/schema.h"

namespace pipeledger {
namespace {

// ---- what the flags are to us ----

/// Flags whose attribute is not a field of the same name.
struct Renamed {
  std::string_view dest, path;
};
constexpr std::array kRenamed = {
    Renamed{"decoder_first_pipeline_num_layers", "parallel.num_layers_in_first_pipeline_stage"},
    Renamed{"decoder_last_pipeline_num_layers", "parallel.num_layers_in_last_pipeline_stage"},
    Renamed{"encoder_num_layers", "model.num_layers"},
    Renamed{"encoder_seq_length", "train.seq_length"},
    Renamed{"fp8", "train.fp8_format"},
    Renamed{"num_virtual_stages_per_pipeline_rank",
            "parallel.virtual_pipeline_model_parallel_size"},
    Renamed{"overlap_p2p_comm", "sim.overlap_p2p_communication"},
    Renamed{"overlap_p2p_comm_warmup_flush", "sim.overlap_p2p_communication_warmup_flush"},
};

/// Flags that act in `Mapper` by name.
constexpr std::array<std::string_view, 21> kSpecial = {"attention_backend",
                                                       "bf16",
                                                       "checkpoint_activations",
                                                       "cp_comm_type",
                                                       "data_parallel_sharding_strategy",
                                                       "fp16",
                                                       "accumulate_allreduce_grads_in_fp32",
                                                       "grad_reduce_in_bf16",
                                                       "group_query_attention",
                                                       "moe_layer_recompute",
                                                       "num_query_groups",
                                                       "optimizer",
                                                       "padded_vocab_size",
                                                       "position_embedding_type",
                                                       "quick_geglu",
                                                       "recompute_activations",
                                                       "tokenizer_type",
                                                       "use_flash_attn",
                                                       "use_rotary_position_embeddings",
                                                       "vocab_size",
                                                       "window_size"};

/// What changes memory or time in Megatron and not yet here.
constexpr std::array<std::string_view, 37> kNotModelled = {
    "apply_rope_fusion",
    "attention_softmax_in_fp32",
    "bias_dropout_fusion",
    "bias_gelu_fusion",
    "calculate_per_token_loss",
    "cuda_graph_impl",
    "cuda_graph_modules",
    "cuda_graph_scope_deprecated",
    "ddp_average_in_collective",
    "ddp_reduce_scatter_with_fp32_accumulation",
    "deterministic_mode",
    "dsa_indexer_topk",
    "empty_unused_memory_level",
    "ep_overlap_early_attn_memory_release",
    "first_last_layers_bf16",
    "fp16_lm_cross_entropy",
    "fp8_output_proj",
    "freeze_all_layers",
    "hierarchical_context_parallel_sizes",
    "keep_fp8_transpose_cache",
    "masked_softmax_fusion",
    "mlp_chunks_for_training",
    "moe_flex_dispatcher_backend",
    "moe_paged_stash",
    "moe_permute_fusion_into_hybridep",
    "moe_shared_expert_overlap",
    "nccl_ub",
    "overlap_param_gather_with_optimizer_step",
    "rampup_batch_size",
    "reuse_grad_buf_for_mxfp8_param_ag",
    "squared_relu",
    "step_batch_size_schedule",
    "suggested_communication_unit_size",
    "symmetric_ar_type",
    "tp_comm_overlap",
    "tp_comm_overlap_rs_dgrad",
    "use_tp_pp_dp_mapping",
};

/// Flags of models that are not decoder-only transformers, or of another numeric format.
struct Refused {
  std::string_view dest, what;
};
constexpr std::array kRefused = {
    Refused{"hybrid_layer_pattern", "hybrid models (Mamba)"},
    Refused{"hybrid_override_pattern", "hybrid models (Mamba)"},
    Refused{"is_hybrid_model", "hybrid models (Mamba)"},
    Refused{"decoder_num_layers", "encoder-decoder models (T5)"},
    Refused{"decoder_seq_length", "encoder-decoder models (T5)"},
    Refused{"experimental_attention_variant", "linear and sparse attention"},
    Refused{"heterogeneous_layers_config_path", "layers of different widths"},
    Refused{"heterogeneous_layers_config_encoded_json", "layers of different widths"},
    Refused{"vision_pretraining", "vision models without a language model"},
    Refused{"fp4", "FP4"},
    Refused{"yaml_cfg", "a file that --yaml-cfg names; give it to --megatron-args itself"},
};
constexpr std::array kRefusedPrograms = {
    Refused{"bert", "encoder-only models (BERT)"}, Refused{"t5", "encoder-decoder models (T5)"},
    Refused{"mamba", "hybrid models (Mamba)"},     Refused{"hybrid", "hybrid models (Mamba)"},
    Refused{"retro", "retrieval models (RETRO)"},  Refused{"vision_", "vision models"},
    Refused{"ict", "inverse cloze models"},        Refused{"multimodal", "multimodal models"},
    Refused{"mimo", "multimodal models"},
};

/// Sizes of vocabularies that a tokenizer's name tells; Megatron reads them from its files.
struct Tokenizer {
  std::string_view name;  // part of --tokenizer-type or --tokenizer-model, in small letters
  std::int64_t vocab_size;
};
constexpr std::array kTokenizers = {
    Tokenizer{"gpt2bpe", 50257},
    Tokenizer{"llama2", 32000},
    Tokenizer{"llama-2", 32000},
    Tokenizer{"mixtral", 32000},
    Tokenizer{"llama3", 128256},
    Tokenizer{"llama-3", 128256},
    Tokenizer{"mistral-7b-instruct-v0.3", 32768},
    // With their added tokens: len(tokenizer), as Megatron asks.
    Tokenizer{"qwen2.5", 151665},
    Tokenizer{"qwen2-", 151646},
    Tokenizer{"qwen3-", 151669},
};

template <std::size_t n>
bool contains(const std::array<std::string_view, n>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

template <typename Table>
const typename Table::value_type* find_dest(const Table& table, std::string_view dest) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const auto& row) { return row.dest == dest; });
  return found == table.end() ? nullptr : &*found;
}

std::string joined(const std::vector<ShellWord>& words) {
  std::string text;
  for (const ShellWord& word : words) {
    if (!text.empty()) text += ' ';
    text += word.text;
  }
  return text;
}

std::optional<std::int64_t> whole(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string small(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// ---- the world ----

/// A count of the launcher's words or the script's variables.
struct WorldCount {
  std::vector<std::string_view> flags;      // of torchrun, srun, mpirun, deepspeed
  std::vector<std::string_view> variables;  // tried in order
};
const WorldCount kNodes = {{"--nnodes", "--nodes", "-N", "--num_nodes"},
                           {"NNODES", "NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"}};
const WorldCount kGpusPerNode = {
    {"--nproc_per_node", "--nproc-per-node", "--num_gpus", "--ntasks-per-node", "--gpus-per-node",
     "--gpus_per_node"},
    {"GPUS_PER_NODE", "NPROC_PER_NODE", "SLURM_NTASKS_PER_NODE", "SLURM_GPUS_ON_NODE"}};
const WorldCount kWorld = {{"-np", "-n", "--ntasks"}, {"WORLD_SIZE", "SLURM_NTASKS"}};

/// The word behind one of `flags`, or behind its '='.
std::optional<ShellWord> launcher_word(const MegatronCommand& command,
                                       const std::vector<std::string_view>& flags) {
  const std::vector<ShellWord>& words = command.launcher;
  for (const std::string_view flag : flags) {
    // The innermost launcher says it last.
    for (std::size_t i = words.size(); i-- > 0;) {
      if (words[i].text == flag && i + 1 < words.size()) return words[i + 1];
      if (words[i].text.starts_with(flag) && words[i].text.substr(flag.size(), 1) == "=") {
        ShellWord value = words[i];
        value.text = value.text.substr(flag.size() + 1);
        return value;
      }
    }
  }
  return std::nullopt;
}

std::optional<ShellWord> variable(const MegatronCommand& command, std::string_view name) {
  for (const ShellWord& word : command.variables) {
    if (!word.text.starts_with(name) || word.text.substr(name.size(), 1) != "=") continue;
    ShellWord value = word;
    value.text = value.text.substr(name.size() + 1);
    return value;
  }
  return std::nullopt;
}

/// The first of these that is a count.
std::optional<ShellWord> variable(const MegatronCommand& command,
                                  const std::vector<std::string_view>& names) {
  for (const std::string_view name : names) {
    std::optional<ShellWord> value = variable(command, name);
    if (value && whole(value->text)) return value;
  }
  return std::nullopt;
}

// ---- the mapping ----

class Mapper {
 public:
  Mapper(const std::vector<MegatronCommand>& commands, const std::vector<Override>& overrides)
      : commands_(commands) {
    for (const Override& change : overrides) overridden_[change.path] = change.value;
    out_.root = {.kind = Node::Kind::group, .position = commands.back().position};
    where_.file = commands.front().position.file;
    for (const MegatronCommand& command : commands) {
      out_.problems.insert(out_.problems.end(), command.problems.begin(), command.problems.end());
      out_.notes.insert(out_.notes.end(), command.notes.begin(), command.notes.end());
      for (const FlagUse& use : command.uses) remember(use);
    }
  }

  MappedScenario map() {
    // Sections in the schema's order; an empty one is left out at the end.
    for (const char* section : {"model", "parallel", "train", "cluster", "sim"})
      out_.root.members.push_back(
          {section, where_, {.kind = Node::Kind::group, .position = where_}});
    program_ = multimodal_program();
    refuse();
    fields();
    multimodal();
    deepspeed();
    precision();
    gradients();
    attention();
    window();
    positions_and_activation();
    attention_mask();
    vocabulary();
    recompute();
    optimizer_and_sharding();
    context();
    world();
    allocator();
    batch();
    required();
    tell();
    std::erase_if(out_.root.members,
                  [](const Member& member) { return member.value.members.empty(); });
    return std::move(out_);
  }

 private:
  // ---- uses ----

  void remember(const FlagUse& use) {
    const std::string dest = use.flag->dest();
    const auto [found, is_new] = uses_.emplace(dest, &use);
    if (is_new) {
      order_.push_back(dest);
      return;
    }
    const FlagUse& old = *found->second;
    const bool differs = joined(old.values) != joined(use.values) || old.is_on != use.is_on;
    if (differs && old.position.file == use.position.file)
      out_.notes.push_back(fmt::format("{}:{}: {} is written again; this one counts",
                                       use.position.file, use.position.line, use.name));
    found->second = &use;
  }

  const FlagUse* find(std::string_view dest) const {
    const auto found = uses_.find(dest);
    return found == uses_.end() ? nullptr : found->second;
  }

  bool is_on(std::string_view dest) const {
    const FlagUse* use = find(dest);
    return use != nullptr && use->is_on;
  }

  /// The value written, or Megatron's default.
  std::string text(std::string_view dest) const {
    if (const FlagUse* use = find(dest)) return joined(use->values);
    const MegatronFlag* flag = find_megatron_dest(dest);
    return flag == nullptr ? "" : std::string(flag->default_value);
  }

  std::int64_t count(std::string_view dest, std::int64_t otherwise) const {
    return whole(text(dest)).value_or(otherwise);
  }

  Position position_of(std::string_view dest) const {
    const FlagUse* use = find(dest);
    return use == nullptr ? where_ : use->position;
  }

  // ---- the tree ----

  void problem(const Position& position, const std::string& field, std::string message) {
    out_.problems.push_back(problem_at(position, field, std::move(message)));
  }

  /// The member of `group` with this key; nullptr when there is none.
  static Member* member_of(Node& group, std::string_view key) {
    for (Member& member : group.members)
      if (member.key == key) return &member;
    return nullptr;
  }

  /// The node at `path`, nullptr when there is none; `creates` makes what is missing.
  Node* node_at(std::string_view path, bool creates, const Position& position) {
    Node* node = &out_.root;
    while (!path.empty()) {
      const std::string_view key = path.substr(0, path.find('.'));
      path.remove_prefix(std::min(key.size() + 1, path.size()));
      Member* member = member_of(*node, key);
      if (member == nullptr && !creates) return nullptr;
      if (member == nullptr) {
        node->members.push_back(
            {std::string(key), position, {.kind = Node::Kind::group, .position = position}});
        member = &node->members.back();
      }
      if (path.empty() && creates) member->position = position;
      node = &member->value;
    }
    return node;
  }
  const Node* node_at(std::string_view path) const {
    return const_cast<Mapper*>(this)->node_at(path, false, where_);
  }

  void set(const std::string& path, std::string value, const Position& position) {
    *node_at(path, true, position) =
        Node{.kind = Node::Kind::word, .text = std::move(value), .position = position};
  }

  void remove(const std::string& path) {
    const std::size_t dot = path.rfind('.');
    if (Node* group = node_at(path.substr(0, dot), false, where_))
      std::erase_if(group->members,
                    [&](const Member& member) { return member.key == path.substr(dot + 1); });
  }

  /// The word at `path`, "" when there is none.
  std::string value_at(const std::string& path) const {
    const Node* node = node_at(path);
    return node == nullptr ? "" : node->text;
  }

  bool has(const std::string& path) const {
    if (overridden_.contains(path) || node_at(path) != nullptr) return true;
    return std::any_of(out_.problems.begin(), out_.problems.end(),
                       [&](const Problem& problem) { return problem.field == path; });
  }

  /// The value of a flag as a field; what is not known is a problem of that field.
  void set_from(const FlagUse& use, const std::string& path) {
    used_.insert(use.flag->dest());
    if (overridden_.contains(path)) return;
    if (use.flag->action != FlagAction::store)
      return set(path, use.is_on ? "true" : "false", use.position);
    for (const ShellWord& value : use.values)
      if (value.unknown)
        return problem(
            value.position, path,
            fmt::format("{} {}, or --set {}=value", use.name, value.unknown->sentence(), path));
    const std::string value = joined(use.values);
    if (is_none(value)) return;
    set(path, value, use.values.empty() ? use.position : use.values.front().position);
    if (use.flag->nargs == "+" && path.ends_with("_modules")) make_list(path, use.values);
  }

  /// Names one by one, each where it stands.
  void make_list(const std::string& path, const std::vector<ShellWord>& values) {
    Node* node = node_at(path, false, where_);
    if (node == nullptr) return;
    node->kind = Node::Kind::list;
    for (const ShellWord& value : values) {
      std::string word;
      for (const char c : value.text + ' ') {
        if (c != ' ' && c != '[' && c != ']' && c != ',') {
          word += c;
        } else if (!word.empty()) {
          node->items.push_back({.kind = Node::Kind::word,
                                 .text = std::exchange(word, ""),
                                 .position = value.position});
        }
      }
    }
  }

  static bool is_none(const std::string& value) { return value == "None" || value == "null"; }

  void set_from(std::string_view dest, const std::string& path) {
    if (const FlagUse* use = find(dest)) set_from(*use, path);
  }

  // ---- section by section ----

  void refuse() {
    for (const MegatronCommand& command : commands_) {
      for (const Refused& program : kRefusedPrograms) {
        const std::string name = small(command.program);
        if (name.find(program.dest) == std::string::npos) continue;
        problem(command.position, "",
                fmt::format("{} trains {}, which are not modelled; decoder-only models are",
                            command.program, program.what));
      }
    }
    for (const Refused& refused : kRefused) {
      const FlagUse* use = find(refused.dest);
      if (use == nullptr || !use->is_on || is_none(joined(use->values))) continue;
      const bool is_decoders = refused.dest.starts_with("decoder_");
      if (is_decoders && program_ != MultimodalProgram::none) continue;
      used_.insert(use->flag->dest());
      problem(use->position, use->name, fmt::format("is for {}, not modelled", refused.what));
    }
    const FlagUse* spec = find("spec");
    if (spec != nullptr && joined(spec->values).find("mamba") != std::string::npos)
      problem(spec->position, "--spec", "is for hybrid models (Mamba), not modelled");
  }

  static bool is_multimodal_flag(const FlagUse& use) {
    const std::span<const MegatronFlag> flags = multimodal_flags();
    return use.flag >= flags.data() && use.flag < flags.data() + flags.size();
  }

  /// By the program, or by its flags where a file names none.
  MultimodalProgram multimodal_program() {
    if (find("language_model_type") != nullptr) return MultimodalProgram::examples;
    bool is_named = false;
    for (const MegatronCommand& command : commands_) {
      if (command.program.find("pretrain_vlm") != std::string::npos)
        return MultimodalProgram::pretrain_vlm;
      is_named = is_named || !command.program.empty();
    }
    // Other flags of theirs, as other projects have them too, do nothing to memory or time.
    constexpr std::array<std::string_view, 6> kActing = {
        "disable_vision_class_token", "freeze_LM",     "freeze_ViT",
        "dataloader_seq_length",      "pixel_shuffle", "vision_model_type"};
    const FlagUse* first = nullptr;
    for (const std::string& dest : order_)
      if (is_multimodal_flag(*find(dest)) && (first == nullptr || contains(kActing, dest)))
        first = find(dest);
    // Configurations that list every attribute have img_h too.
    const bool has_images = find("img_h") != nullptr && find("img_h")->name.starts_with("--") &&
                            !is_on("vision_pretraining");
    if (!is_named && (first != nullptr || has_images)) return MultimodalProgram::pretrain_vlm;
    if (first == nullptr || !contains(kActing, first->flag->dest())) return MultimodalProgram::none;
    problem(first->position, first->name,
            "is a flag of Megatron's vision-language programs, pretrain_vlm.py and "
            "examples/multimodal/train.py (which needs --language-model-type, too); remove it");
    return MultimodalProgram::none;
  }

  void multimodal() {
    if (program_ == MultimodalProgram::none) return;
    const MultimodalFlags flags = {
        .text =
            [&](std::string_view dest) {
              used_.insert(std::string(dest));
              return text(dest);
            },
        .is_on =
            [&](std::string_view dest) {
              used_.insert(std::string(dest));
              const FlagUse* use = find(dest);
              const MegatronFlag* flag = find_megatron_dest(dest);
              return use != nullptr ? use->is_on : flag != nullptr && flag->default_value == "True";
            },
        .is_written =
            [&](std::string_view dest) {
              used_.insert(std::string(dest));
              const FlagUse* use = find(dest);
              return use != nullptr && use->is_on && !is_none(joined(use->values));
            },
        .is_set = [&](std::string_view path) { return overridden_.contains(path); },
        .tensor_size =
            std::clamp<std::int64_t>(number_at("parallel.tensor_model_parallel_size", 1), 1, 65536),
        .context_size =
            std::clamp<std::int64_t>(number_at("parallel.context_parallel_size", 1), 1, 65536)};
    MultimodalFields found = multimodal_fields(program_, flags);
    for (MultimodalField& field : found.fields)
      if (!overridden_.contains(field.path))
        set(field.path, std::move(field.value), position_of(field.dest));
    for (MultimodalProblem& wrong : found.problems)
      problem(position_of(wrong.dest), wrong.field, std::move(wrong.message));
    out_.notes.insert(out_.notes.end(), found.notes.begin(), found.notes.end());
  }

  /// Everything that is a field under Megatron's own name.
  void fields() {
    for (const char* section : {"model", "parallel", "train"}) {
      for (const std::string& dest : fields_of_section(section)) {
        if (!contains(kSpecial, dest)) set_from(dest, fmt::format("{}.{}", section, dest));
      }
    }
    for (const Renamed& renamed : kRenamed) set_from(renamed.dest, std::string(renamed.path));
    // On unless it is said, and off without virtual stages.
    if (is_on("overlap_p2p_comm")) remove("sim.overlap_p2p_communication");
    embedding_and_loss_as_layers();
  }

  /// DeepSpeed's "type:transformer|embedding" counts the embedding and the head as layers.
  void embedding_and_loss_as_layers() {
    used_.insert("former_pp_partition_method");
    if (text("former_pp_partition_method").find("embedding") == std::string::npos) return;
    for (const char* path : {"parallel.account_for_embedding_in_pipeline_split",
                             "parallel.account_for_loss_in_pipeline_split"})
      set(path, "true", position_of("former_pp_partition_method"));
  }

  /// What Megatron-DeepSpeed's flags say besides.
  void deepspeed() {
    used_.insert("former_moe");
    if (const FlagUse* use = find("former_moe")) {
      // It writes --num-experts 1 where there are none.
      if (number_at("model.num_experts", 1) > 1)
        problem(
            use->position, use->name,
            "is for DeepSpeed's experts, not modelled; Megatron-LM's are, --moe-router-topk and "
            "the like");
      remove("model.num_experts");
    }
    const FlagUse* ulysses = find("former_ds_sequence_parallel_size");
    used_.insert("former_ds_sequence_parallel_size");
    if (ulysses == nullptr || joined(ulysses->values) == "1") return;
    set_from(*ulysses, "parallel.context_parallel_size");
    set("parallel.cp_comm_type", "a2a", ulysses->position);
    out_.notes.push_back(
        "--ds-sequence-parallel-size is read as context parallelism that exchanges heads for "
        "sequence, cp_comm_type a2a");
  }

  void precision() {
    used_.insert("bf16");
    used_.insert("fp16");
    if (is_on("bf16") && is_on("fp16"))
      problem(position_of("fp16"), "train.precision", "--bf16 and --fp16 exclude each other");
    const char* dest = is_on("bf16") ? "bf16" : "fp16";
    const bool is_16_bit = is_on("bf16") || is_on("fp16");
    set("train.precision", is_16_bit ? dest : "fp32", position_of(dest));
  }

  /// validate_args: bf16 reduces in fp32 unless told otherwise, and --grad-reduce-in-bf16 wins;
  /// with fp16 and fp32 it is not asked.
  void gradients() {
    used_.insert("grad_reduce_in_bf16");
    used_.insert("accumulate_allreduce_grads_in_fp32");
    if (is_on("bf16") && is_on("grad_reduce_in_bf16"))
      return set("train.grad_reduce_in_bf16", "true", position_of("grad_reduce_in_bf16"));
    const bool is_16_bit = is_on("bf16") || is_on("fp16");
    if (is_16_bit && is_on("accumulate_allreduce_grads_in_fp32"))
      set("train.accumulate_allreduce_grads_in_fp32", "true",
          position_of("accumulate_allreduce_grads_in_fp32"));
  }

  void attention() {
    used_.insert("attention_backend");
    used_.insert("use_flash_attn");
    // In fp32 only the unfused kernels run, and the loader knows.
    if (is_on("bf16") || is_on("fp16")) {
      const std::string backend = text("attention_backend");
      const bool is_local = text("transformer_impl") == "local" && !is_on("use_flash_attn");
      const bool is_unfused = is_local || backend == "unfused" || backend == "local";
      const bool is_legacy_flash = text("transformer_impl") == "local" && !is_unfused;
      // auto: the loader chooses by the GPU.
      const bool is_auto = backend.ends_with("auto") && !is_unfused && !is_legacy_flash;
      if (!overridden_.contains("train.attention_backend") && !is_auto)
        set("train.attention_backend",
            is_unfused        ? "unfused"
            : is_legacy_flash ? "flash"
                              : backend,
            position_of("attention_backend"));
    }
    // Without --group-query-attention the number of groups is not asked.
    used_.insert("group_query_attention");
    used_.insert("num_query_groups");
    set_from("former_num_key_value_heads", "model.num_query_groups");
    if (!is_on("group_query_attention")) return;
    if (find("num_query_groups") != nullptr) {
      set_from("num_query_groups", "model.num_query_groups");
    } else {
      set("model.num_query_groups", "1", position_of("group_query_attention"));
    }
  }

  /// "127,0": tokens before and behind one that it sees.
  void window() {
    const FlagUse* use = find("window_size");
    if (use == nullptr || use->values.empty()) return;
    used_.insert("window_size");
    if (overridden_.contains("model.window_size") || use->values.front().unknown)
      return set_from(*use, "model.window_size");
    std::string sizes = joined(use->values);
    std::erase_if(sizes, [](char c) { return c == '(' || c == ')' || c == ' '; });
    const std::size_t comma = std::min(sizes.find(','), sizes.size());
    const std::string before = sizes.substr(0, comma);
    const std::string behind = sizes.substr(std::min(comma + 1, sizes.size()));
    const Position at = use->values.front().position;
    if (!whole(before) || !whole(behind) || (behind != "0" && behind != "-1"))
      return problem(
          at, "model.window_size",
          fmt::format("{} is no window of tokens before one alone; write N,0", in_quotes(sizes)));
    remove("model.window_size");
    if (before == "-1") return remove("model.window_attn_skip_freq");
    set("model.window_size", before, at);
  }

  void positions_and_activation() {
    // Megatron-DeepSpeed writes it small.
    if (value_at("model.normalization") == "rmsnorm" && find("deepspeed") != nullptr)
      set("model.normalization", "RMSNorm", position_of("normalization"));
    for (const char* dest : {"position_embedding_type", "use_rotary_position_embeddings",
                             "add_position_embedding", "quick_geglu"})
      used_.insert(dest);
    const bool is_rotary = is_on("use_rotary_position_embeddings");
    const std::string type = is_rotary ? "rope" : text("position_embedding_type");
    // These turn queries and keys, or do nothing: no table to hold.
    const bool has_no_table = type == "rope" || type == "rotary" || type == "yarn" ||
                              type == "mrope" || type == "alibi" || type == "none";
    if (type == "relative")
      problem(position_of("position_embedding_type"), "model.position_embedding_type",
              "relative is T5's, which is not modelled; write rope or learned_absolute");
    if (!overridden_.contains("model.position_embedding_type"))
      set("model.position_embedding_type", has_no_table ? "rope" : type,
          position_of("position_embedding_type"));
    // A gated activation other than SiLU has the same matrices, but Megatron's default width of an
    // ungated one.
    if (!is_on("quick_geglu")) return;
    set("model.swiglu", "true", position_of("quick_geglu"));
    if (!has("model.ffn_hidden_size"))
      set("model.ffn_hidden_size", std::to_string(4 * count("hidden_size", 0)),
          position_of("hidden_size"));
  }

  /// Flags all, no keys of YAML.
  bool is_command_line() const {
    return std::all_of(uses_.begin(), uses_.end(),
                       [](const auto& use) { return use.second->is_checked; });
  }

  /// Megatron-LM's own dataset makes one unless told otherwise; recipes in YAML have other ones.
  void attention_mask() {
    const char* path = "train.create_attention_mask_in_dataloader";
    used_.insert("dataloader_inter_document_masking");
    const bool is_made = !is_on("dataloader_inter_document_masking") && !has(path);
    const bool is_launch = is_command_line();
    const bool is_gpt = program_ == MultimodalProgram::none;
    if (is_made && is_launch && is_gpt) set(path, "true", where_);
    if (is_on("dataloader_inter_document_masking") && value_at(path) == "true") remove(path);
  }

  void vocabulary() {
    for (const char* dest : {"vocab_size", "padded_vocab_size", "tokenizer_type"})
      used_.insert(dest);
    if (find("padded_vocab_size") != nullptr) {
      set_from("padded_vocab_size", "model.vocab_size");
      return set("model.make_vocab_size_divisible_by", "1", position_of("padded_vocab_size"));
    }
    set_from("vocab_size", "model.vocab_size");
    if (has("model.vocab_size")) return;
    std::string name =
        small(text("tokenizer_type") + " " + text("tokenizer_model") + " " + text("vocab_file"));
    // The default of pretrain_gpt.py and its like (args_defaults), which recipes in YAML lack.
    if (find("tokenizer_type") == nullptr && is_command_line()) name += " gpt2bpe";
    for (const Tokenizer& tokenizer : kTokenizers) {
      if (name.find(tokenizer.name) == std::string::npos) continue;
      const char* dest = find("tokenizer_model") != nullptr ? "tokenizer_model" : "tokenizer_type";
      used_.insert(dest);
      out_.notes.push_back(
          find(dest) == nullptr
              ? fmt::format("model.vocab_size {} is taken: GPT-2's, as no --tokenizer-type is "
                            "written",
                            tokenizer.vocab_size)
              : fmt::format("model.vocab_size {} is taken, as {} says {}", tokenizer.vocab_size,
                            find_megatron_dest(dest)->name(), in_quotes(text(dest))));
      return set("model.vocab_size", std::to_string(tokenizer.vocab_size), position_of(dest));
    }
    problem(position_of("tokenizer_type"), "model.vocab_size",
            "is missing: Megatron asks its tokenizer; add --set model.vocab_size=N");
  }

  /// --recompute-activations is selective; --checkpoint-activations was full, a layer at a time.
  void recompute() {
    for (const char* dest :
         {"recompute_activations", "checkpoint_activations", "moe_layer_recompute"})
      used_.insert(dest);
    const bool is_free = !has("train.recompute_granularity");
    if (is_on("recompute_activations"))
      set("train.recompute_granularity", "selective", position_of("recompute_activations"));
    if (is_on("checkpoint_activations") && is_free) {
      const Position at = position_of("checkpoint_activations");
      out_.notes.push_back(
          "--checkpoint-activations, which Megatron refuses now, is read as full recompute");
      set("train.recompute_granularity", "full", at);
      if (!has("train.recompute_method")) set("train.recompute_method", "uniform", at);
      if (!has("train.recompute_num_layers")) set("train.recompute_num_layers", "1", at);
    }
    // A block of no layers recomputes nothing.
    if (value_at("train.recompute_method") == "block" &&
        value_at("train.recompute_num_layers") == "0")
      remove("train.recompute_granularity");
    // Asked with full recompute only: 0 layers is what others write where there is none.
    const bool is_full = value_at("train.recompute_granularity") == "full";
    if (!is_full && !overridden_.contains("train.recompute_granularity")) {
      for (const char* path : {"train.recompute_method", "train.recompute_num_layers"}) {
        if (!value_at(path).empty())
          out_.notes.push_back(
              fmt::format("{}: does nothing unless recompute_granularity is full", path));
        remove(path);
      }
    }
    if (is_on("moe_layer_recompute")) {
      const Position at = position_of("moe_layer_recompute");
      set("train.recompute_granularity", "selective", at);
      std::vector<ShellWord> modules = {{.text = "core_attn", .position = at}};
      if (const FlagUse* use = find("recompute_modules")) modules = use->values;
      modules.push_back({.text = "moe", .position = at});
      set("train.recompute_modules", "", at);
      make_list("train.recompute_modules", modules);
    }
  }

  void optimizer_and_sharding() {
    used_.insert("optimizer");
    if (find("optimizer") != nullptr) {
      const std::string name = text("optimizer");
      set_from("optimizer", "train.optimizer");
      if (name == "dist_muon") set("train.optimizer", "muon", position_of("optimizer"));
    }
    // DeepSpeed's stage 1 is the distributed optimizer; the others cut gradients and weights too.
    used_.insert("former_zero_stage");
    const std::string stage = text("former_zero_stage");
    if (stage == "1")
      set("train.use_distributed_optimizer", "true", position_of("former_zero_stage"));
    if (stage == "2" || stage == "3")
      problem(
          position_of("former_zero_stage"), "train.data_parallel_sharding_strategy",
          fmt::format("--zero-stage {} is DeepSpeed's, not modelled; --zero-stage 1 is", stage));
    // Asked with --use-megatron-fsdp alone, whatever its default.
    used_.insert("data_parallel_sharding_strategy");
    if (is_on("use_megatron_fsdp"))
      set_from("data_parallel_sharding_strategy", "train.data_parallel_sharding_strategy");
  }

  void context() {
    const FlagUse* use = find("cp_comm_type");
    used_.insert("cp_comm_type");
    if (use == nullptr || use->values.empty()) return;
    set_from(*use, "parallel.cp_comm_type");
    // A list names a kind for each layer.
    const std::string& first = use->values.front().text;
    for (const ShellWord& value : use->values)
      if (value.text != first)
        return problem(value.position, "parallel.cp_comm_type",
                       "differs from layer to layer, which is not modelled");
    set("parallel.cp_comm_type", first == "allgather" ? "all_gather" : first,
        use->values.front().position);
  }

  /// A count of the launch; nullopt when nothing says it.
  std::optional<ShellWord> counted(const WorldCount& asked) {
    for (auto command = commands_.rbegin(); command != commands_.rend(); ++command) {
      if (std::optional<ShellWord> word = launcher_word(*command, asked.flags)) {
        // An elastic range, 2:4, begins with the fewest.
        word->text = word->text.substr(0, word->text.find(':'));
        if (whole(word->text) || word->unknown) return word;
      }
    }
    for (auto command = commands_.rbegin(); command != commands_.rend(); ++command)
      if (const std::optional<ShellWord> word = variable(*command, asked.variables)) return word;
    return std::nullopt;
  }

  void world() {
    const bool is_cluster_chosen = overridden_.contains("cluster.preset");
    if (!is_cluster_chosen) {
      set("cluster.preset", "dgx-h100", where_);
      out_.notes.push_back(
          "cluster.preset dgx-h100 is taken, since Megatron's arguments name no GPU; "
          "--set cluster.preset=NAME chooses another");
    }
    const bool is_decided = overridden_.contains("parallel.data_parallel_size");
    std::optional<ShellWord> gpus = counted(kGpusPerNode);
    if (gpus && !gpus->unknown) {
      set_count("cluster.gpus_per_node", *gpus);
    } else if (gpus) {
      out_.notes.push_back(
          fmt::format("cluster.gpus_per_node is the preset's: {}", gpus->unknown->sentence()));
      gpus.reset();
    }
    if (overridden_.contains("cluster.nodes")) return;
    const std::optional<ShellWord> nodes = counted(kNodes);
    if (nodes && !nodes->unknown) return set_count("cluster.nodes", *nodes);
    if (const std::optional<ShellWord> world = counted(kWorld); world && !world->unknown)
      return set_nodes(*world, gpus);
    if (nodes && !is_decided)
      return problem(nodes->position, "cluster.nodes",
                     fmt::format("{}, or --set cluster.nodes=N", nodes->unknown->sentence()));
    if (!is_decided)
      out_.notes.push_back(
          "one data-parallel replica is taken, since nothing says how many nodes run; "
          "--set cluster.nodes=N does");
  }

  /// Newer releases of PyTorch read the first name, all read the second.
  void allocator() {
    if (overridden_.contains("sim.alloc_conf")) return;
    for (auto command = commands_.rbegin(); command != commands_.rend(); ++command) {
      for (const std::string_view name : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}) {
        const std::optional<ShellWord> written = variable(*command, name);
        if (written) return set("sim.alloc_conf", written->text, written->position);
      }
    }
  }

  void set_count(const std::string& path, const ShellWord& word) {
    if (!overridden_.contains(path)) set(path, word.text, word.position);
  }

  void set_nodes(const ShellWord& world, const std::optional<ShellWord>& gpus) {
    const std::int64_t per_node = gpus ? whole(gpus->text).value_or(8) : 8;
    const std::int64_t ranks = whole(world.text).value_or(0);
    const std::int64_t nodes = per_node > 0 ? ranks / per_node : 0;
    if (nodes * per_node != ranks || nodes < 1)
      return problem(world.position, "cluster.nodes",
                     fmt::format("{} ranks are not a multiple of {} GPUs a node; "
                                 "--set cluster.nodes=N",
                                 ranks, per_node));
    set("cluster.nodes", std::to_string(nodes), world.position);
  }

  /// The number at `path`, of --set or of the flags; `otherwise` when there is none.
  std::int64_t number_at(const std::string& path, std::int64_t otherwise) const {
    const auto changed = overridden_.find(path);
    if (changed != overridden_.end()) return whole(changed->second).value_or(otherwise);
    return whole(value_at(path)).value_or(otherwise);
  }

  /// Megatron's default: one microbatch for each replica.
  void batch() {
    if (has("train.global_batch_size")) return;
    const auto size = [&](const char* path) {
      return std::clamp<std::int64_t>(number_at(path, 1), 1, 1 << 20);
    };
    const std::int64_t ranks_of_a_replica = size("parallel.tensor_model_parallel_size") *
                                            size("parallel.pipeline_model_parallel_size") *
                                            size("parallel.context_parallel_size");
    const std::int64_t gpus =
        number_at("cluster.nodes", 0) == 0
            ? 0
            : size("cluster.nodes") *
                  std::clamp<std::int64_t>(number_at("cluster.gpus_per_node", 8), 1, 65536);
    const std::int64_t replicas =
        number_at("parallel.data_parallel_size",
                  std::max<std::int64_t>(gpus / std::max<std::int64_t>(ranks_of_a_replica, 1), 1));
    set("train.global_batch_size",
        std::to_string(size("train.micro_batch_size") *
                       std::clamp<std::int64_t>(replicas, 1, 1 << 20)),
        where_);
  }

  /// Megatron's _check_arg_is_not_none, in our words.
  void required() {
    for (const auto& [path, flag] :
         {std::pair("model.num_layers", "--num-layers"),
          std::pair("model.hidden_size", "--hidden-size"),
          std::pair("model.num_attention_heads", "--num-attention-heads"),
          std::pair("train.seq_length", "--seq-length"),
          std::pair("train.micro_batch_size", "--micro-batch-size")})
      if (!has(path) && !overridden_.contains("model.preset"))
        problem(where_, path, fmt::format("is missing; add {} N", flag));
    const bool has_table = text("position_embedding_type") == "learned_absolute" &&
                           !is_on("use_rotary_position_embeddings");
    if (has_table && !has("model.max_position_embeddings") &&
        !overridden_.contains("model.position_embedding_type"))
      problem(where_, "model.max_position_embeddings",
              "is missing; add --max-position-embeddings N, or --position-embedding-type rope");
  }

  /// What was not used, in two lines.
  void tell() {
    std::vector<std::string> ignored, not_modelled;
    for (const std::string& dest : order_) {
      const FlagUse& use = *find(dest);
      if (used_.contains(dest)) continue;
      for (const ShellWord& value : use.values) {
        const bool is_checked = use.is_checked && !value.unknown;
        const std::string wrong = is_checked ? wrong_value(*use.flag, value.text) : "";
        if (!wrong.empty()) problem(value.position, use.name, wrong);
      }
      const std::string_view otherwise = use.flag->default_value;
      const bool is_default = use.flag->action == FlagAction::store
                                  ? joined(use.values) == otherwise
                                  : use.is_on == (otherwise == "True");
      if (contains(kNotModelled, dest) && !is_default) {
        not_modelled.push_back(use.name);
      } else {
        ignored.push_back(use.name);
      }
    }
    if (!not_modelled.empty())
      out_.notes.push_back("not modelled, though memory or time depend on it: " +
                           join(not_modelled));
    if (!ignored.empty()) out_.notes.push_back("ignored, as it changes neither: " + join(ignored));
  }

  const std::vector<MegatronCommand>& commands_;
  std::map<std::string, std::string, std::less<>> overridden_;  // by path
  std::map<std::string, const FlagUse*, std::less<>> uses_;     // by dest, the last
  std::vector<std::string> order_;                              // of the dests
  std::set<std::string, std::less<>> used_;
  MultimodalProgram program_ = MultimodalProgram::none;
  Position where_;  // of what no flag says
  MappedScenario out_;
};

}  // namespace

MappedScenario map_megatron(const std::vector<MegatronCommand>& commands,
                            const std::vector<Override>& overrides) {
  return Mapper(commands, overrides).map();
}

}  // namespace pipeledger
