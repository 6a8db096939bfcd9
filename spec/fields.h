// From what was written to a message of the schema, field by field along its descriptor.
#pragma once

#include <google/protobuf/message.h>

#include <map>
#include <string>
#include <vector>

#include "spec/document.h"

namespace pipeledger {

/// What reading the fields brought to light.
struct FieldReport {
  std::vector<Problem> problems;
  std::map<std::string, Position, std::less<>> positions;  // by path, of every field written
};

/// Sets every field of `message` that `root` writes and that is sound. What is not - an unknown
/// name, a wrong type, a number out of range, a value that is not legal, a field written twice -
/// is a Problem, and its field stays unset.
void read_fields(const Node& root, google::protobuf::Message& message, FieldReport& report);

}  // namespace pipeledger
