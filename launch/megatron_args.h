// A Megatron-LM launch: a shell script, a file of arguments, a YAML file with Megatron's names, or
// flags, as the training script's argparse would read them.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/override.h"
#include "base/problem.h"
#include "launch/megatron_flags.h"
#include "shell/shell.h"

namespace pipeledger {

/// One flag with its values, or one key of a YAML file that is the attribute of a flag.
struct FlagUse {
  const MegatronFlag* flag = nullptr;
  std::string name;               // as it is written
  Position position;              // of the name
  std::vector<ShellWord> values;  // none: a switch
  bool is_on = true;              // of a switch: what it stores
  bool is_checked = true;         // by argparse, as YAML is not
};

struct MegatronCommand {
  std::vector<FlagUse> uses;         // in order: a later one wins
  std::vector<ShellWord> launcher;   // the words before the training script: torchrun ...
  std::vector<ShellWord> variables;  // NAME=value of the script
  std::string program;               // pretrain_gpt.py; empty: none is named
  Position position;                 // of the command, or of the file
  std::vector<Problem> problems;
  std::vector<std::string> notes;
};

struct MegatronReading {
  std::vector<Override> environment;   // --set-env
  std::vector<std::string> arguments;  // of the script
  std::filesystem::path folder;        // of files that a script sources; empty: none is read
  bool may_hold_nothing = false;       // of Megatron's: a file that another extends
  bool ignores_unknown = false;        // flags that Megatron-LM does not have are told, not refused
};

/// A launch script, or a file that holds nothing but flags. Of several commands that take
/// Megatron's flags, the first with the most is meant; a note tells of the others. Throws
/// InputError where the shell would see no command, or no command takes Megatron's flags.
MegatronCommand read_megatron_script(std::string_view text, const std::string& file,
                                     const MegatronReading& reading);

/// Flags as the shell handed them to us; they stand at "command line".
MegatronCommand read_megatron_flags(const std::vector<std::string>& words,
                                    const MegatronReading& reading);

/// NeMo, Megatron Bridge, Primus and Megatron's own test recipes: at any depth, a key that is an
/// attribute of Megatron's arguments (num_layers), one of the names those projects gave it, or a
/// flag (--num-layers). Other keys are told. ${VARIABLE:default} and ${a.b} are followed.
MegatronCommand read_megatron_yaml(std::string_view text, const std::string& file,
                                   const MegatronReading& reading);

/// The files that a YAML file names as Primus does: under extends, beside it; for the model and
/// the trainer of an experiment, "primus/configs/models/megatron/llama3_8B.yaml", below one of the
/// folders around it.
std::vector<std::string> extended_files(std::string_view text, const std::string& file);

/// What argparse would say of the value of a flag; "" when nothing.
std::string wrong_value(const MegatronFlag& flag, const std::string& value);

}  // namespace pipeledger
