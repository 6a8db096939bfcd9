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

struct MegatronFlag {
  std::string_view names;     // by blanks: "--no-rope-fusion --disable-rope-fusion"
  std::string_view own_dest;  // the attribute it sets, where not the first name says it
  FlagAction action;
  FlagType type;                   // of each value
  std::string_view nargs;          // "": one value; "+", "*" or a count
  std::string_view choices;        // by blanks; "": any
  std::string_view default_value;  // as Python prints it; "": None

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

/// Every name, for "did you mean".
const std::vector<std::string>& megatron_flag_names();

}  // namespace pipeledger
