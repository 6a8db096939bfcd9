// Presets: a name and the fields it stands for, in protobuf text of the schema's own message, so a
// unit stands in each name and what a preset sets is exactly what a user could have written. Each is
// a file of presets/, built into the program; presets/README.md says how to add one.
#pragma once

#include <google/protobuf/message.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pipeledger {

struct Preset {
  std::string_view name;    // the file's, without its ending
  std::string_view fields;  // the file's text
};

/// In the order of their names.
std::span<const Preset> model_presets();    // of proto::Model
std::span<const Preset> gpu_presets();      // of proto::Gpu
std::span<const Preset> cluster_presets();  // of proto::Cluster
std::span<const Preset> nccl_presets();     // of proto::Nccl

/// Sets the fields of the preset called `name`; false when there is none.
bool apply_preset(std::span<const Preset> presets, std::string_view name,
                  google::protobuf::Message& message);

/// `"lama3-8b" is not known; did you mean llama3-8b? one of: ...`
std::string unknown_preset(std::span<const Preset> presets, std::string_view name);

}  // namespace pipeledger
