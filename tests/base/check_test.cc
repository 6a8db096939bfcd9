#include "base/check.h"

#include <gmock/gmock.h>

#include <stdexcept>

#include "base/internal_error.h"

namespace pipeledger {
namespace {

TEST(Check, ABugIsAnExceptionThatSaysWhatAndWhere) {
  const int two = 2;
  EXPECT_THAT([&] { PIPELEDGER_CHECK(two == 3, "two={}", two); },
              testing::ThrowsMessage<InternalError>(
                  testing::AllOf(testing::StartsWith("internal error at "),
                                 testing::HasSubstr("check_test.cc:"),
                                 testing::EndsWith(": two == 3 (two=2)"))));
  PIPELEDGER_CHECK(two == 2, "two={}", two);
}

}  // namespace
}  // namespace pipeledger
