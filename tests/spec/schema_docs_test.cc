// docs/scenario.md names every field of the schema, and every legal value of an enum.
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <string>

#include "base/file.h"
#include "spec/scenario.pb.h"

namespace pipeledger {
namespace {

void expect_described(const google::protobuf::Descriptor& group, const std::string& path,
                      const std::string& docs) {
  for (int i = 0; i < group.field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *group.field(i);
    const std::string field_path = path + field.name();
    EXPECT_NE(docs.find("`" + field_path + "`"), std::string::npos)
        << field_path << " is not described";
    if (field.message_type() != nullptr)
      expect_described(*field.message_type(), field_path + (field.is_repeated() ? "[]." : "."),
                       docs);
    if (field.enum_type() == nullptr) continue;
    for (int v = 0; v < field.enum_type()->value_count(); ++v)
      EXPECT_NE(docs.find(field.enum_type()->value(v)->name()), std::string::npos)
          << field_path << ": " << field.enum_type()->value(v)->name();
  }
}

TEST(SchemaDocs, NameEveryField) {
  const std::string docs = read_file(PIPELEDGER_SOURCE_DIR "/docs/scenario.md");
  expect_described(*proto::Scenario::descriptor(), "", docs);
}

}  // namespace
}  // namespace pipeledger
