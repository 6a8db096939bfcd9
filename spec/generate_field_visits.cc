// Writes spec/field_visits.h: for every message of the schema a function that visits its fields
// beside the members of equal name of a struct. Built and run before spec/ is compiled.
#include <fmt/format.h>
#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <set>
#include <string>

#include "spec/scenario.pb.h"

namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

/// protobuf's C++ accessors are in small letters: nvlink_gbps().
std::string accessor(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

void write_visit(const Descriptor& group, std::ostream& out) {
  out << fmt::format(
      "template <class Struct, class Visit>\n"
      "void visit_fields(const proto::{}& written, Struct& members, Visit&& visit) {{\n",
      group.name());
  for (int i = 0; i < group.field_count(); ++i) {
    const FieldDescriptor& field = *group.field(i);
    if (field.is_repeated() || field.message_type() != nullptr) continue;
    out << fmt::format(
        "  if constexpr (requires {{ members.{0}; }})\n"
        "    visit(\"{0}\", written.has_{1}(), written.{1}(), members.{0});\n",
        field.name(), accessor(field.name()));
  }
  out << "}\n\n";
}

void write_visits(const Descriptor& group, std::set<std::string>& done, std::ostream& out) {
  if (!done.insert(group.name()).second) return;
  for (int i = 0; i < group.field_count(); ++i)
    if (const Descriptor* inner = group.field(i)->message_type()) write_visits(*inner, done, out);
  write_visit(group, out);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::ofstream out(argv[1]);
  out << "// Made by spec/generate_field_visits.cc of spec/scenario.proto.\n"
         "#pragma once\n\n"
         "#include \"spec/scenario.pb.h\"\n\n"
         "namespace pipeledger {\n\n";
  std::set<std::string> done;
  write_visits(*pipeledger::proto::Scenario::descriptor(), done, out);
  out << "}  // namespace pipeledger\n";
  out.close();
  return out ? 0 : 1;
}
