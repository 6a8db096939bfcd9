// Every command-line flag of Megatron-LM's training scripts.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pipeledger {

/// yes_or_no: --x and --no-x (argparse.BooleanOptionalAction).
enum class FlagAction { store, store_true, store_false, yes_or_no };
/// layer_pattern: a number, or a list expression such as ([0]*3+[1]*58).
enum class FlagType { text, whole, number, layer_pattern };

/// What a flag is to a scenario.
struct Disposition {
  enum class Kind {
    field,         // it is the field `what`, "model.num_layers"
    handler,       // the handler `what` (launch/megatron_handlers.h) acts on it
    hint,          // the handler `what` may ask it; told as ignored unless the handler says that it took it
    no_effect,     // it changes neither memory nor time, and is told as ignored
    not_modelled,  // memory or time depend on it, and it is told so where it is not the default
    refused,       // for `what`, which is not modelled: a problem unless it is off
  };
  Kind kind = Kind::no_effect;
  std::string_view what;
};

struct MegatronFlag {
  std::string_view names;     // by blanks: "--no-rope-fusion --disable-rope-fusion"
  std::string_view own_dest;  // the attribute it sets, where not the first name says it
  FlagAction action;
  FlagType type;                   // of each value
  std::string_view nargs;          // "": one value; "+", "*" or a count
  std::string_view choices;        // by blanks; "": any
  std::string_view default_value;  // as Python prints it; "": None
  Disposition disposition;         // the same for all flags of one attribute

  /// The attribute of Megatron's args: rope_fusion.
  std::string dest() const;
  std::string name() const;  // the first
};

/// By first name. Of Megatron-LM at core_v0.19.0, the 840 flags of arguments.py and of the
/// dataclasses it makes flags of.
std::span<const MegatronFlag> megatron_flags();

/// What pretrain_vlm.py and examples/multimodal take besides.
std::span<const MegatronFlag> multimodal_flags();

/// Flags that earlier releases had, or scripts of other repositories built on Megatron have, with
/// what became of them; own_dest is that of the flag that took their place.
std::span<const MegatronFlag> former_megatron_flags();

struct FoundFlag {
  const MegatronFlag* flag = nullptr;
  bool is_negated = false;  // --no-x of yes_or_no
  bool is_former = false;
};

/// By any of its names, "--tensor-model-parallel-size". Underscores are read as dashes nowhere:
/// argparse does not either.
std::optional<FoundFlag> find_megatron_flag(std::string_view name);
/// By the attribute it sets, tensor_model_parallel_size.
const MegatronFlag* find_megatron_dest(std::string_view dest);

/// Of the flags that set this attribute, former ones too; nullptr where none does.
const Disposition* disposition_of(std::string_view dest);
/// The attributes whose flags are the field `path`: the one of that name first, others in the table's order.
std::vector<std::string> flags_of_field(std::string_view path);

/// The words of a list by blanks, as the table has them.
std::vector<std::string_view> table_words(std::string_view list);

/// Every name, for "did you mean".
const std::vector<std::string>& megatron_flag_names();

}  // namespace pipeledger
