// A scenario made in code holds what a file that does not write the fields means: what a struct's
// members begin with is the schema's default.
#include <gtest/gtest.h>

#include <string>

#include "spec/copy_fields.h"
#include "spec/scenario.h"

namespace pipeledger {
namespace {

/// How many members' fields have a constant default; each member must begin with it.
template <class Message, class Struct>
int num_with_default(const Struct& initial) {
  int count = 0;
  visit_fields(Message::default_instance(), initial,
               [&](const char* name, bool is_written, const auto& value, const auto& member) {
                 const auto& field = *Message::descriptor()->FindFieldByName(name);
                 if (!field.has_default_value()) return;
                 if (field.options().HasExtension(proto::default_is)) return;
                 auto copied = member;
                 copy_field(is_written, value, copied);
                 EXPECT_TRUE(copied == member) << field.full_name();
                 ++count;
               });
  return count;
}

TEST(Defaults, OfStructsAreTheSchemas) {
  EXPECT_GE(num_with_default<proto::Train>(Train{}), 30);
  EXPECT_GE(num_with_default<proto::Parallel>(Parallel{}), 8);
  EXPECT_GE(num_with_default<proto::Vision>(Vision{}), 15);
  EXPECT_GE(num_with_default<proto::Model>(MultiLatentAttention{}), 4);
  EXPECT_GE(num_with_default<proto::Cluster>(Cluster{}), 3);
  EXPECT_GE(num_with_default<proto::Sim>(Sim{}), 5);
}

}  // namespace
}  // namespace pipeledger
