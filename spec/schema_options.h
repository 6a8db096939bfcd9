// What a descriptor of the schema says, in words: for the files of spec/ that see descriptors.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

#include "spec/schema.h"

namespace pipeledger {

/// A number as the schema's bounds and defaults print: no point where it is whole.
std::string number_text(double value);

/// The word a file writes for the value: its name, or `written_as`.
const std::string& word_of(const google::protobuf::EnumValueDescriptor& value);

/// The legal words of an enum, or the presets' names where the field names one; else none.
std::vector<FieldValue> legal_values(const google::protobuf::FieldDescriptor& field);

/// "required", the default in words, the constant, or "none".
std::string default_text(const google::protobuf::FieldDescriptor& field);

/// Of the fields of a group, in the order of the schema.
std::vector<std::string> field_names(const google::protobuf::Descriptor& group);

/// "model", "cluster.devices[]": the path of a field in a group at `path`.
std::string join_path(const std::string& group, const std::string& field);

}  // namespace pipeledger
