// Vision-language launches: what pretrain_vlm.py and examples/multimodal make of their flags.
// Megatron-LM d98e8a64dd: pretrain_vlm.py gives the tower the language model's own sizes;
// examples/multimodal knows towers and language models by name (config.py, model.py,
// llava_model.py).

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "launch/megatron_handlers.h"

namespace pipeledger {
namespace {

/// A --vision-model-type. Its layers have biases.
struct VisionTower {
  std::string_view name;
  int num_layers = 0;
  std::int64_t hidden_size = 0, ffn_hidden_size = 0;
  std::int64_t num_attention_heads = 0, kv_channels = 0;
  std::int64_t class_token_len = 0;
  std::int64_t table_pixels =
      0;  // side of the largest image its positions know; 0: the image's own
  bool swiglu = false;
  bool is_rms_normed = false;
  bool qk_layernorm = false;
  bool pre_layernorm = false, final_layernorm = false;
};

enum class ProjectorNorm { inherited, none, LayerNorm };

/// A --language-model-type: what it sets in spite of the flags, and its projection. The rest comes
/// from the flags.
struct LanguageType {
  std::string_view name;
  std::int64_t ffn_hidden_size = 0;
  bool swiglu = true;
  bool add_qkv_bias = false;
  std::int64_t projector_ffn_hidden_size = 0;
  ProjectorNorm projector_norm = ProjectorNorm::inherited;
  bool projector_bias = false;
};

// InternViT-6B has 25 heads, and as many idle ones as make them a multiple of the tensor-parallel
// size.
constexpr std::array kTowers = {
    VisionTower{.name = "clip",
                .num_layers = 24,
                .hidden_size = 1024,
                .ffn_hidden_size = 4096,
                .num_attention_heads = 16,
                .kv_channels = 64,
                .class_token_len = 1,
                .pre_layernorm = true},
    VisionTower{.name = "siglip",
                .num_layers = 27,
                .hidden_size = 1152,
                .ffn_hidden_size = 4304,
                .num_attention_heads = 16,
                .kv_channels = 72,
                .final_layernorm = true},
    VisionTower{.name = "internvit",
                .num_layers = 45,
                .hidden_size = 3200,
                .ffn_hidden_size = 12800,
                .num_attention_heads = 25,
                .kv_channels = 128,
                .class_token_len = 1,
                .is_rms_normed = true,
                .qk_layernorm = true},
    VisionTower{.name = "internvit300M",
                .num_layers = 24,
                .hidden_size = 1024,
                .ffn_hidden_size = 4096,
                .num_attention_heads = 16,
                .kv_channels = 64,
                .class_token_len = 1},
    VisionTower{.name = "radio",
                .num_layers = 32,
                .hidden_size = 1280,
                .ffn_hidden_size = 5120,
                .num_attention_heads = 16,
                .kv_channels = 80,
                .class_token_len = 8,
                .table_pixels = 2048},
    VisionTower{.name = "radio-g",
                .num_layers = 40,
                .hidden_size = 1536,
                .ffn_hidden_size = 4096,
                .num_attention_heads = 24,
                .kv_channels = 64,
                .class_token_len = 5,
                .table_pixels = 1792,
                .swiglu = true,
                .final_layernorm = true},
    VisionTower{.name = "cradio-g",
                .num_layers = 40,
                .hidden_size = 1536,
                .ffn_hidden_size = 6144,
                .num_attention_heads = 24,
                .kv_channels = 64,
                .class_token_len = 8,
                .table_pixels = 2048},
};

using enum ProjectorNorm;
constexpr std::array kLanguages = {
    LanguageType{"llama3_8b", 14336, true, false, 14336},
    LanguageType{"llama3.1_8b", 14336, true, false, 4096, LayerNorm, true},
    LanguageType{"llama3.2_1b", 8192, true, false, 2048, LayerNorm},
    LanguageType{"mistral_7b", 14336, true, false, 14336, none},
    LanguageType{"yi-34b", 20480, true, false, 20480, LayerNorm},
    LanguageType{"qwen2.0_72B", 29568, true, true, 29568, LayerNorm},
    LanguageType{"qwen2.5_7B", 18944, true, true, 3584},
    LanguageType{"qwen2.5_72B", 29568, true, true, 29568, LayerNorm},
    LanguageType{"nemotron5-8b", 21504, false, false, 21504},
    LanguageType{"llama_nemotron_8b", 14336, true, false, 14336, LayerNorm, true},
};

template <typename Table>
const typename Table::value_type* find_name(const Table& table, std::string_view name) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const auto& row) { return row.name == name; });
  return found == table.end() ? nullptr : &*found;
}

template <typename Table>
std::string names_of(const Table& table) {
  std::vector<std::string> names;
  for (const auto& row : table) names.emplace_back(row.name);
  return join(names);
}

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// A field of the scenario that a flag decides.
struct MultimodalField {
  std::string path, value;
  std::string_view dest;
};
struct MultimodalProblem {
  std::string_view dest;
  std::string field, message;
};

/// The flags as these programs see them. What is asked here has been used.
class Flags {
 public:
  explicit Flags(MegatronDocument& document) : document_(document) {}

  /// As written, else Megatron's default.
  std::string text(std::string_view dest) const {
    document_.took(dest);
    return document_.text(dest);
  }
  bool is_on(std::string_view dest) const {
    document_.took(dest);
    const FlagUse* use = document_.find(dest);
    const MegatronFlag* flag = find_megatron_dest(dest);
    return use != nullptr ? use->is_on : flag != nullptr && flag->default_value == "True";
  }
  bool is_written(std::string_view dest) const {
    document_.took(dest);
    const FlagUse* use = document_.find(dest);
    return use != nullptr && use->is_on && !is_none(joined(use->values));
  }
  std::int64_t count(std::string_view dest, std::int64_t otherwise) const {
    // Products of what is in range stay so; the loader refuses the rest.
    constexpr std::int64_t kFar = std::int64_t{1} << 40;
    const std::optional<std::int64_t> value = whole_number(text(dest));
    return value ? std::clamp(*value, -kFar, kFar) : otherwise;
  }
  /// By --set, as a scenario's field.
  bool is_set(std::string_view path) const { return document_.is_overridden(path); }
  std::int64_t tensor_size() const { return size("parallel.tensor_model_parallel_size"); }
  std::int64_t context_size() const { return size("parallel.context_parallel_size"); }

 private:
  std::int64_t size(const char* path) const {
    return std::clamp<std::int64_t>(document_.number_at(path, 1), 1, 65536);
  }

  MegatronDocument& document_;
};

/// Tower, projection, what is frozen, and the language model's sequence.
class Reader {
 public:
  explicit Reader(MegatronDocument& document)
      : document_(document),
        flags_(document),
        is_vlm_(document.program == MultimodalProgram::pretrain_vlm) {}

  void read() {
    refuse();
    set_count("model.vision.patch_dim", patch_, "patch_dim");
    set("model.vision.tensor_parallel", "true", "tensor_model_parallel_size");
    if (check_image()) is_vlm_ ? copied_tower() : named_models();
    freeze();
    if (!problems_.empty()) drop_tower();
    write();
  }

 private:
  void write() {
    for (MultimodalField& field : fields_)
      if (!flags_.is_set(field.path))
        document_.set(field.path, std::move(field.value), document_.position_of(field.dest));
    for (MultimodalProblem& wrong : problems_)
      document_.problem(document_.position_of(wrong.dest), wrong.field, std::move(wrong.message));
    for (std::string& note : notes_) document_.note(std::move(note));
  }

  void set(const std::string& path, std::string value, std::string_view dest) {
    fields_.push_back({path, std::move(value), dest});
  }
  void set_count(const std::string& path, std::int64_t value, std::string_view dest) {
    set(path, std::to_string(value), dest);
  }
  void set_if(const std::string& path, bool value, std::string_view dest) {
    if (value) set(path, "true", dest);
  }
  void problem(std::string_view dest, std::string field, std::string message) {
    problems_.push_back({dest, std::move(field), std::move(message)});
  }

  /// Half a tower would only be told of again, field by field.
  void drop_tower() {
    std::erase_if(fields_, [](const MultimodalField& field) {
      return field.path.starts_with("model.vision.") || field.path.starts_with("model.freeze_");
    });
  }

  /// What the scenario has no word for.
  void refuse() {
    struct Refused {
      std::string_view dest, flag, what;
    };
    constexpr std::array kRefused = {
        Refused{"sound_model_type", "--sound-model-type", "models that hear"},
        Refused{"conv_merging", "--conv-merging", "tokens merged by a convolution"},
    };
    for (const Refused& refused : kRefused)
      if (flags_.is_written(refused.dest))
        problem(refused.dest, std::string(refused.flag),
                fmt::format("is for {}, not modelled", refused.what));
    if (flags_.count("video_temporal_patch_size", 1) > 1)
      problem("video_temporal_patch_size", "--video-temporal-patch-size",
              "is for patches of several frames, not modelled; write 1");
  }

  bool check_image() {
    const std::int64_t height = flags_.count("img_h", 0), width = flags_.count("img_w", 0);
    const bool is_whole = patch_ > 0 && height % patch_ == 0 && width % patch_ == 0;
    const bool is_sane = height > 0 && width > 0 && height < 1 << 20 && width < 1 << 20;
    if (!is_whole || !is_sane) {
      problem("patch_dim", "model.vision.patch_dim",
              fmt::format("{} does not divide an image of --img-h {} and --img-w {}", patch_,
                          height, width));
      return false;
    }
    patches_ = height / patch_ * (width / patch_);
    return true;
  }

  void freeze() {
    set_if("model.freeze_language_model", flags_.is_on("freeze_LM"), "freeze_LM");
    set_if("model.freeze_vision_model", flags_.is_on("freeze_ViT"), "freeze_ViT");
  }

  /// Class tokens come before the patches, and go before the projection if they are dropped.
  void class_tokens(std::int64_t length) {
    if (length == 0) return;
    set_count("model.vision.class_token_len", length, "class_token_len");
    if (!flags_.is_on("disable_vision_class_token"))
      set("model.vision.drop_class_token", "false", "disable_vision_class_token");
  }

  // ---- pretrain_vlm.py ----

  /// A tower of CLIP's kind, with the language model's own sizes and its MLP as projection.
  void copied_tower() {
    const std::int64_t text_layers = flags_.count("num_layers", 0);
    const std::int64_t tower_layers = flags_.count("encoder_num_layers", text_layers);
    const std::int64_t layers =
        flags_.count("decoder_num_layers", text_layers > 0 ? text_layers : tower_layers);
    set_count("model.num_layers", layers, "decoder_num_layers");
    set_count("model.vision.num_layers", tower_layers, "encoder_num_layers");
    set_count("model.vision.num_patches", patches_, "img_h");
    set_count("model.vision.num_position_embeddings", patches_ + 1, "img_h");
    class_tokens(1);
    copied_sizes();
    set("model.vision.pre_layernorm", "true", "normalization");
    set("model.vision.final_layernorm", "false", "normalization");
    copied_recompute(tower_layers);
    const std::int64_t kept = flags_.is_on("disable_vision_class_token") ? 0 : 1;
    const std::int64_t text = flags_.count("dataloader_seq_length", flags_.count("seq_length", 0));
    const std::int64_t length = round_up(text + patches_ + kept, padding());
    set_count("train.seq_length", length,
              flags_.is_written("dataloader_seq_length") ? "dataloader_seq_length" : "seq_length");
    if (flags_.count("max_position_embeddings", length) < length)
      set_count("model.max_position_embeddings", length, "max_position_embeddings");
    notes_.push_back(fmt::format("train.seq_length is {}: {} tokens of text, {} of an image{}",
                                 length, text, patches_ + kept, padding() > 1 ? ", padded" : ""));
  }

  /// context_parallel.get_padding.
  std::int64_t padding() const {
    const std::int64_t halves = flags_.context_size() > 1 ? 2 * flags_.context_size() : 1;
    return halves * (flags_.is_on("sequence_parallel") ? flags_.tensor_size() : 1);
  }

  void copied_sizes() {
    const std::int64_t hidden = flags_.count("hidden_size", 1);
    const bool is_gated = flags_.is_on("swiglu");
    const std::int64_t default_ffn = is_gated ? hidden * 8 / 3 / 64 * 64 : 4 * hidden;
    const std::int64_t ffn = flags_.count("ffn_hidden_size", default_ffn);
    set_count("model.vision.hidden_size", hidden, "hidden_size");
    set_count("model.vision.ffn_hidden_size", ffn, "ffn_hidden_size");
    set_count("model.vision.projector_ffn_hidden_size", ffn, "ffn_hidden_size");
    set("model.vision.num_attention_heads", flags_.text("num_attention_heads"),
        "num_attention_heads");
    if (flags_.is_on("group_query_attention"))
      set_count("model.vision.num_query_groups", flags_.count("num_query_groups", 1),
                "num_query_groups");
    if (flags_.is_written("kv_channels"))
      set("model.vision.kv_channels", flags_.text("kv_channels"), "kv_channels");
    set_if("model.vision.swiglu", is_gated, "swiglu");
    set_if("model.vision.projector_swiglu", is_gated, "swiglu");
    set("model.vision.projector_normalization", flags_.text("normalization"), "normalization");
    const bool has_biases = flags_.is_on("add_bias_linear");
    set_if("model.vision.add_bias_linear", has_biases, "add_bias_linear");
    set_if("model.vision.projector_bias", has_biases, "add_bias_linear");
    set_if("model.vision.add_qkv_bias", flags_.is_on("add_qkv_bias"), "add_qkv_bias");
  }

  void copied_recompute(std::int64_t tower_layers) {
    if (flags_.text("recompute_granularity") != "full") return;
    const std::int64_t length = flags_.count("recompute_num_layers", 1);
    const bool is_block = flags_.text("recompute_method") == "block";
    if (is_block && length < tower_layers)
      return problem("recompute_num_layers", "model.vision.recompute_granularity",
                     fmt::format("full recompute of {} of the tower's {} layers is not modelled; "
                                 "write --recompute-num-layers {} or --recompute-method uniform",
                                 length, tower_layers, tower_layers));
    set("model.vision.recompute_granularity", "full", "recompute_granularity");
    set_count("model.vision.recompute_num_layers", is_block ? 1 : length, "recompute_num_layers");
  }

  // ---- examples/multimodal ----

  void named_models() {
    named_language();
    named_tower();
    images();
    if (flags_.is_written("decoder_seq_length")) {
      set("train.seq_length", flags_.text("decoder_seq_length"), "decoder_seq_length");
    } else {
      problem("decoder_seq_length", "train.seq_length",
              "is missing; add --decoder-seq-length N, the tokens of text and images together");
    }
    const std::int64_t length = flags_.count("decoder_seq_length", 0);
    if (flags_.count("max_position_embeddings", length) < length)
      set_count("model.max_position_embeddings", length, "max_position_embeddings");
  }

  /// A name that is none of a table's: why, and what is one.
  void unknown(std::string_view dest, const char* flag, const std::string& name,
               const std::string& names) {
    const bool is_hybrid = name.starts_with("nemotron5-hybrid") || name.starts_with("nemotron6");
    const std::string why = is_hybrid                   ? "is a hybrid model (Mamba), not modelled"
                            : name.starts_with("hf://") ? "has its sizes in a config.json elsewhere"
                            : name == "llama3.1_70B"
                                ? "has no projection in Megatron-LM's config.py"
                                : "is not known";
    problem(dest, flag, fmt::format("{} {}; one of: {}", in_quotes(name), why, names));
  }

  void named_language() {
    const std::string name = flags_.text("language_model_type");
    const LanguageType* type = find_name(kLanguages, name);
    if (type == nullptr)
      return unknown("language_model_type", "--language-model-type", name, names_of(kLanguages));
    constexpr std::string_view kDest = "language_model_type";
    set_count("model.ffn_hidden_size", type->ffn_hidden_size, kDest);
    set("model.swiglu", type->swiglu ? "true" : "false", kDest);
    set("model.add_bias_linear", "false", kDest);
    set_if("model.add_qkv_bias", type->add_qkv_bias, kDest);
    set_count("model.vision.projector_ffn_hidden_size", type->projector_ffn_hidden_size, kDest);
    set_if("model.vision.projector_bias", type->projector_bias, kDest);
    if (type->projector_norm != ProjectorNorm::none)
      set("model.vision.projector_normalization",
          type->projector_norm == LayerNorm ? "LayerNorm" : flags_.text("normalization"), kDest);
    if (flags_.text("vision_projection_type") != "affine") return;
    set("model.vision.projector_type", "affine", "vision_projection_type");
    std::erase_if(fields_, [](const MultimodalField& field) {
      return field.path == "model.vision.projector_ffn_hidden_size";
    });
  }

  void named_tower() {
    const std::string name = flags_.text("vision_model_type");
    const VisionTower* tower = find_name(kTowers, name);
    if (tower == nullptr)
      return unknown("vision_model_type", "--vision-model-type", name, names_of(kTowers));
    constexpr std::string_view kDest = "vision_model_type";
    const std::string at = "model.vision.";
    set_count(at + "num_layers", tower->num_layers, kDest);
    set_count(at + "hidden_size", tower->hidden_size, kDest);
    set_count(at + "ffn_hidden_size", tower->ffn_hidden_size, kDest);
    const bool has_idle_heads = name == "internvit";
    set_count(at + "num_attention_heads",
              has_idle_heads ? round_up(tower->num_attention_heads, flags_.tensor_size())
                             : tower->num_attention_heads,
              kDest);
    set_count(at + "kv_channels", tower->kv_channels, kDest);
    set_if(at + "swiglu", tower->swiglu, kDest);
    set(at + "normalization", tower->is_rms_normed ? "RMSNorm" : "LayerNorm", kDest);
    set(at + "add_bias_linear", "true", kDest);
    set_if(at + "qk_layernorm", tower->qk_layernorm, kDest);
    set_if(at + "pre_layernorm", tower->pre_layernorm, kDest);
    set(at + "final_layernorm", tower->final_layernorm ? "true" : "false", kDest);
    tower_tokens(*tower);
    tower_recompute(tower->num_layers);
  }

  void tower_tokens(const VisionTower& tower) {
    std::int64_t class_tokens_of = tower.class_token_len;
    const bool is_radio = tower.table_pixels > 0;
    if (is_radio) class_tokens_of = flags_.count("class_token_len", class_tokens_of);
    // Under FP8 a length of 16 or 32 keeps the sequence a multiple of it.
    if (is_radio && flags_.is_written("fp8"))
      class_tokens_of = flags_.text("fp8_recipe") == "mxfp8" ? 32 : 16;
    class_tokens(class_tokens_of);
    if (tower.class_token_len == 0 && flags_.is_on("disable_vision_class_token"))
      problem("disable_vision_class_token", "--disable-vision-class-token",
              fmt::format("is refused by Megatron with {}, which has none; remove it", tower.name));
    const std::int64_t side = tower.table_pixels / patch_;
    set_count("model.vision.num_position_embeddings",
              is_radio ? side * side : patches_ + tower.class_token_len, "img_h");
    set_count("model.vision.spatial_merge_size", flags_.is_on("pixel_shuffle") ? 2 : 1,
              "pixel_shuffle");
  }

  /// --recompute-vision: the granularity of the language model, over all layers of the tower.
  void tower_recompute(int num_layers) {
    const std::string granularity = flags_.text("recompute_granularity");
    if (!flags_.is_on("recompute_vision") || granularity != "full") {
      const bool is_selective = flags_.is_on("recompute_vision") && granularity == "selective";
      return set("model.vision.recompute_granularity", is_selective ? "selective" : "none",
                 "recompute_vision");
    }
    const bool is_uniform = flags_.text("recompute_method") == "uniform";
    set("model.vision.recompute_granularity", "full", "recompute_vision");
    set_count("model.vision.recompute_num_layers", is_uniform ? num_layers : 1, "recompute_vision");
  }

  /// As many tiles and frames as a sample may have; what a batch has, its data decide.
  void images() {
    if (flags_.is_on("dynamic_resolution")) {
      if (!flags_.is_set("model.vision.num_patches"))
        problem("dynamic_resolution", "model.vision.num_patches",
                "is not known with --dynamic-resolution; add --set model.vision.num_patches=N");
      return;
    }
    const std::int64_t tiles =
        flags_.count("max_num_tiles", 1) + (flags_.is_on("use_thumbnail") ? 1 : 0);
    const std::int64_t images =
        std::clamp<std::int64_t>(std::max(tiles, flags_.count("num_frames", 1)), 1, 1 << 20);
    set_count("model.vision.num_patches", images * patches_, "img_h");
    if (images == 1) return;
    set_count("model.vision.num_images", images, tiles == images ? "max_num_tiles" : "num_frames");
    notes_.push_back(fmt::format(
        "model.vision.num_images {} is taken, the most that a sample may have", images));
  }

  MegatronDocument& document_;
  Flags flags_;
  bool is_vlm_;
  std::int64_t patch_ = flags_.count("patch_dim", 0);
  std::int64_t patches_ = 0;  // of an image
  std::vector<MultimodalField> fields_;
  std::vector<MultimodalProblem> problems_;
  std::vector<std::string> notes_;
};

}  // namespace

void map_multimodal(MegatronDocument& document) {
  if (document.program != MultimodalProgram::none) Reader(document).read();
}

}  // namespace pipeledger
