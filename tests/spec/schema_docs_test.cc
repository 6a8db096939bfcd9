// docs/scenario.md is written from the schema, and the schema describes every field.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "base/file.h"
#include "base/problem.h"
#include "spec/scenario.pb.h"
#include "spec/schema.h"

namespace pipeledger {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr std::string_view kBegin = "<!-- fields of ";
constexpr std::string_view kEnd = "<!-- end of fields -->";

/// The text with what stands between each pair of marks replaced by the table of its section.
std::string with_tables(const std::string& text) {
  std::string out;
  std::size_t at = 0;
  for (std::size_t begin = text.find(kBegin); begin != std::string::npos;
       begin = text.find(kBegin, at)) {
    const std::size_t name = begin + kBegin.size();
    const std::string section = text.substr(name, text.find(':', name) - name);
    const std::size_t line_end = text.find('\n', begin) + 1;
    out += text.substr(at, line_end - at) + fields_table(section);
    at = text.find(kEnd, line_end);
  }
  return out + text.substr(at);
}

TEST(SchemaDocs, AreWrittenFromTheSchema) {
  const std::string path = PIPELEDGER_SOURCE_DIR "/docs/scenario.md";
  const std::string text = read_file(path);
  const std::string now = with_tables(text);
  if (std::getenv("UPDATE_GOLDEN") != nullptr) write_file(path, now);
  EXPECT_EQ(now, read_file(path));
}

TEST(SchemaDocs, HaveATableForEverySection) {
  const std::string text = read_file(PIPELEDGER_SOURCE_DIR "/docs/scenario.md");
  for (const std::string& section : sections())
    EXPECT_THAT(text, ::testing::HasSubstr(std::string(kBegin) + section + ":"));
}

TEST(SchemaDocs, EveryFieldIsToldInWholeSentences) {
  for (const FieldDescription& field : describe_fields()) {
    SCOPED_TRACE(field.path);
    EXPECT_TRUE(field.doc.ends_with('.')) << field.doc;
    EXPECT_EQ(field.doc.find('\n'), std::string::npos);
    std::istringstream folders(field.read_by);
    for (std::string folder; std::getline(folders >> std::ws, folder, ',');)
      EXPECT_TRUE(std::filesystem::is_directory(PIPELEDGER_SOURCE_DIR "/" + folder)) << folder;
  }
}

TEST(SchemaDocs, EveryNumberHasBothBounds) {
  for (const FieldDescription& field : describe_fields()) {
    if (field.type != "whole number" && field.type != "number") continue;
    EXPECT_NE(field.range.find(" and at most "), std::string::npos) << field.path;
  }
}

/// A default outside the range would be a value that nobody may write.
void expect_legal_defaults(const Descriptor& group) {
  for (int i = 0; i < group.field_count(); ++i) {
    const FieldDescriptor& field = *group.field(i);
    if (field.message_type() != nullptr) expect_legal_defaults(*field.message_type());
    const auto& options = field.options();
    if (!field.has_default_value() || !options.HasExtension(proto::at_most)) continue;
    const double value = field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE
                             ? field.default_value_double()
                         : field.cpp_type() == FieldDescriptor::CPPTYPE_INT32
                             ? field.default_value_int32()
                             : static_cast<double>(field.default_value_int64());
    EXPECT_LE(value, options.GetExtension(proto::at_most)) << field.full_name();
    if (options.HasExtension(proto::at_least)) {
      EXPECT_GE(value, options.GetExtension(proto::at_least)) << field.full_name();
    }
    if (options.HasExtension(proto::above)) {
      EXPECT_GT(value, options.GetExtension(proto::above)) << field.full_name();
    }
  }
}

TEST(SchemaDocs, EveryDefaultIsLegal) { expect_legal_defaults(*proto::Scenario::descriptor()); }

TEST(FieldHelp, TellsAllOfANumber) {
  EXPECT_EQ(field_help("cluster.links[2].bandwidth_GBps"),
            "cluster.links[].bandwidth_GBps\n"
            "  Rate of the link, each way.\n"
            "  type      number\n"
            "  unit      1e9 bytes/s\n"
            "  range     above 0 and at most 1000000000\n"
            "  default   required\n"
            "  read by   topology\n");
}

TEST(FieldHelp, TellsTheWordsOfAName) {
  EXPECT_EQ(field_help("parallel.cp_comm_type"),
            "parallel.cp_comm_type\n"
            "  How attention sees the whole sequence under context parallelism.\n"
            "  type      name\n"
            "  default   p2p\n"
            "  read by   ledger\n"
            "  one of    p2p: keys and values pass round a ring\n"
            "            all_gather: they are gathered\n"
            "            a2a: heads are exchanged for sequence\n"
            "            a2a+p2p: both, in two levels\n");
}

TEST(FieldHelp, ListsTheFieldsOfAGroup) {
  EXPECT_EQ(field_help("sim.layer_times"),
            "sim.layer_times\n"
            "  A measurement of one layer, which replaces the roofline.\n"
            "  type      group\n"
            "  default   none\n"
            "  read by   sim\n"
            "  sim.layer_times.forward_ms\n"
            "  sim.layer_times.backward_ms\n"
            "  sim.layer_times.weight_backward_ms\n");
}

std::string complaint_about(std::string_view path) {
  try {
    field_help(path);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(FieldHelp, NamesTheNearestFieldOfAnUnknownOne) {
  EXPECT_EQ(complaint_about("seq_length"),
            "--help-field: \"seq_length\" is not a field; did you mean train.seq_length?");
  EXPECT_EQ(complaint_about("train.seq_lenght"),
            "--help-field: \"train.seq_lenght\" is not a field; did you mean train.seq_length?");
  EXPECT_EQ(complaint_about("parallel.seq_length"),
            "--help-field: \"parallel.seq_length\" is not a field; did you mean train.seq_length?");
  EXPECT_EQ(complaint_about("xylophone"),
            "--help-field: \"xylophone\" is not a field; docs/scenario.md has them all");
}

}  // namespace
}  // namespace pipeledger
