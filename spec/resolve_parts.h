// The parts of a scenario, each from what was written: for resolve.cc alone.
#pragma once

#include <google/protobuf/message.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "spec/document.h"
#include "spec/findings.h"
#include "spec/scenario.h"

namespace pipeledger {

namespace proto {
class Model;
class Train;
class Vision;
}  // namespace proto

/// "FIELD is missing; REMEDY", unless the field is given or already told wrong.
void require(bool is_given, const std::string& field, std::string_view remedy, Findings& findings);

/// The same for every field of `message`, at `path`, that the schema says is needed.
void require_fields(const google::protobuf::Message& message, const std::string& path,
                    Findings& findings);

Model resolve_model(const proto::Model& written, const std::filesystem::path& folder,
                    const SectionReader& read_hf_config, std::int64_t tensor_parallel_size,
                    Findings& findings);

/// The tower's recompute, which is the language model's unless written, `full` aside.
void resolve_tower_recompute(const proto::Vision& written, const Train& train, Vision& vision);

Train resolve_train(const proto::Train& written, int data_parallel_size, const Gpu& gpu,
                    Findings& findings);

}  // namespace pipeledger
