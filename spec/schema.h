// What the schema (spec/scenario.proto) says of the fields of a scenario: the tables of
// docs/scenario.md, --help-field and `pipeledger schema` are made of it, and of nothing else.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pipeledger {

struct FieldValue {
  std::string word;  // as a file writes it: "train-ledger"
  std::string says;  // half a sentence; empty where the word says it
};

/// One field, in words.
struct FieldDescription {
  std::string path;      // "train.seq_length", "cluster.links[].from"
  std::string type;      // "whole number", "number", "true or false", "text", "name", "group", ...
  std::string unit;      // of a number; empty for the others
  std::string range;     // "at least 1 and at most 65536"; empty where there is none
  std::string standard;  // the default, "required" or "none"
  std::string doc;       // whole sentences
  std::string read_by;   // the folders that act on it
  std::vector<FieldValue> values;  // the legal ones, of an enum or a preset; empty for the others
};

/// Every field, groups before their fields, in the order of the schema.
std::vector<FieldDescription> describe_fields();

/// "model", "parallel" and so on, in the order of the schema.
std::vector<std::string> sections();

/// The fields of "model", "parallel" and so on, in the order of the schema. Requires a section that
/// is there.
std::vector<std::string> fields_of_section(std::string_view section);

/// The largest value that the schema allows the number at `path`, "model.num_layers". Requires a
/// field with a range.
double largest_allowed(std::string_view path);

/// The fields of a section as a table in Markdown.
std::string fields_table(std::string_view section);

/// What is known of the field at `path`, for a terminal; of a group, its fields too. Throws
/// InputError that names the nearest field where there is none.
std::string field_help(std::string_view path);

/// The schema as JSON Schema (draft 7), by which editors complete and check a scenario's YAML or
/// JSON.
std::string json_schema();

}  // namespace pipeledger
