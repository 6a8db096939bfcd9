#include "launch/megatron_mapping.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/text.h"
#include "launch/megatron_document.h"
#include "launch/megatron_handlers.h"

namespace pipeledger {
namespace {

using Kind = Disposition::Kind;

/// Programs that train something else than a decoder-only transformer.
struct RefusedProgram {
  std::string_view name, what;
};
constexpr std::array kRefusedPrograms = {
    RefusedProgram{"bert", "encoder-only models (BERT)"},
    RefusedProgram{"t5", "encoder-decoder models (T5)"},
    RefusedProgram{"retro", "retrieval models (RETRO)"},
    RefusedProgram{"vision_", "vision models"},
    RefusedProgram{"ict", "inverse cloze models"},
    RefusedProgram{"multimodal", "multimodal models"},
    RefusedProgram{"mimo", "multimodal models"},
};

bool is_multimodal_flag(const FlagUse& use) {
  const std::span<const MegatronFlag> flags = multimodal_flags();
  return use.flag >= flags.data() && use.flag < flags.data() + flags.size();
}

/// Flags that only the vision-language programs have and that act there. Their others, as other
/// projects have them too, do nothing to memory or time.
bool is_acting(const std::string& dest) {
  constexpr std::array<std::string_view, 6> kActing = {
      "disable_vision_class_token", "freeze_LM",     "freeze_ViT",
      "dataloader_seq_length",      "pixel_shuffle", "vision_model_type"};
  return std::find(kActing.begin(), kActing.end(), dest) != kActing.end();
}

/// By the program, or by its flags where a file names none.
MultimodalProgram multimodal_program(MegatronDocument& document) {
  if (document.find("language_model_type") != nullptr) return MultimodalProgram::examples;
  bool is_named = false;
  for (const MegatronCommand& command : document.commands()) {
    if (command.program.find("pretrain_vlm") != std::string::npos)
      return MultimodalProgram::pretrain_vlm;
    is_named = is_named || !command.program.empty();
  }
  const FlagUse* first = nullptr;
  for (const std::string& dest : document.order())
    if (is_multimodal_flag(*document.find(dest)) && (first == nullptr || is_acting(dest)))
      first = document.find(dest);
  // Configurations that list every attribute have img_h too.
  const FlagUse* image = document.find("img_h");
  const bool has_images =
      image != nullptr && image->name.starts_with("--") && !document.is_on("vision_pretraining");
  if (!is_named && (first != nullptr || has_images)) return MultimodalProgram::pretrain_vlm;
  if (first == nullptr || !is_acting(first->flag->dest())) return MultimodalProgram::none;
  document.problem(
      first->position, first->name,
      "is a flag of Megatron's vision-language programs, pretrain_vlm.py and "
      "examples/multimodal/train.py (which needs --language-model-type, too); remove it");
  return MultimodalProgram::none;
}

void refuse_programs(MegatronDocument& document) {
  for (const MegatronCommand& command : document.commands()) {
    const std::string name = lower_case(command.program);
    for (const RefusedProgram& program : kRefusedPrograms)
      if (name.find(program.name) != std::string::npos)
        document.problem(
            command.position, "",
            fmt::format("{} trains {}, which are not modelled; decoder-only models are",
                        command.program, program.what));
  }
}

void refuse_flags(MegatronDocument& document) {
  const auto is_multimodal = [](const FlagHandler& handler) {
    return handler.run == map_multimodal;
  };
  const FlagHandler& multimodal =
      *std::find_if(megatron_handlers().begin(), megatron_handlers().end(), is_multimodal);
  for (const MegatronFlag& flag : megatron_flags()) {
    if (flag.disposition.kind != Kind::refused) continue;
    const std::string dest = flag.dest();
    const FlagUse* use = document.find(dest);
    if (use == nullptr || !use->is_on || is_none(joined(use->values))) continue;
    if (document.program != MultimodalProgram::none && asks_flag(multimodal, dest)) continue;
    document.took(dest);
    document.problem(use->position, use->name,
                     fmt::format("is for {}, not modelled", flag.disposition.what));
  }
}

/// Megatron's _check_arg_is_not_none, in our words.
void require_fields(MegatronDocument& document) {
  for (const auto& [path, flag] : {std::pair("model.num_layers", "--num-layers"),
                                   std::pair("model.hidden_size", "--hidden-size"),
                                   std::pair("model.num_attention_heads", "--num-attention-heads"),
                                   std::pair("train.seq_length", "--seq-length"),
                                   std::pair("train.micro_batch_size", "--micro-batch-size")})
    if (!document.has(path) && !document.is_overridden("model.preset") &&
        !(path == std::string_view("model.num_layers") &&
          document.has("model.hybrid_layer_pattern")))
      document.problem(document.where(), path, fmt::format("is missing; add {} N", flag));
  const bool has_table = document.text("position_embedding_type") == "learned_absolute" &&
                         !document.is_on("use_rotary_position_embeddings");
  if (has_table && !document.has("model.max_position_embeddings") &&
      !document.is_overridden("model.position_embedding_type"))
    document.problem(
        document.where(), "model.max_position_embeddings",
        "is missing; add --max-position-embeddings N, or --position-embedding-type rope");
}

bool is_default(const FlagUse& use) {
  const std::string_view otherwise = use.flag->default_value;
  return use.flag->action == FlagAction::store ? joined(use.values) == otherwise
                                               : use.is_on == (otherwise == "True");
}

/// Flags that changed nothing here, in two lines; their values must be legal all the same.
void tell(MegatronDocument& document) {
  std::vector<std::string> ignored, not_modelled;
  for (const std::string& dest : document.order()) {
    const FlagUse& use = *document.find(dest);
    const Kind kind = use.flag->disposition.kind;
    if (kind == Kind::field || kind == Kind::handler || document.is_taken(dest)) continue;
    for (const ShellWord& value : use.values) {
      const bool is_checked = use.is_checked && !value.unknown;
      const std::string wrong = is_checked ? wrong_value(*use.flag, value.text) : "";
      if (!wrong.empty()) document.problem(value.position, use.name, wrong);
    }
    (kind == Kind::not_modelled && !is_default(use) ? not_modelled : ignored).push_back(use.name);
  }
  if (!not_modelled.empty())
    document.note("not modelled, though memory or time depend on it: " + join(not_modelled));
  if (!ignored.empty()) document.note("ignored, as it changes neither: " + join(ignored));
}

}  // namespace

MappedScenario map_megatron(const std::vector<MegatronCommand>& commands,
                            const std::vector<Override>& overrides) {
  static const std::vector<const FlagHandler*> kOrder = in_order(megatron_handlers());
  return map_megatron(commands, overrides, kOrder);
}

MappedScenario map_megatron(const std::vector<MegatronCommand>& commands,
                            const std::vector<Override>& overrides,
                            const std::vector<const FlagHandler*>& order) {
  MegatronDocument document(commands, overrides);
  document.program = multimodal_program(document);
  refuse_programs(document);
  refuse_flags(document);
  for (const FlagHandler* handler : order) {
    document.enter(handler);
    handler->run(document);
  }
  document.enter(nullptr);
  require_fields(document);
  tell(document);
  std::erase_if(document.root.members,
                [](const Member& member) { return member.value.members.empty(); });
  return {std::move(document.root), std::move(document.problems), std::move(document.notes)};
}

}  // namespace pipeledger
