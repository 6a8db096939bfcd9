// What the docs show of the tool is what it prints: every block that begins with "$ pipeledger" is
// run; UPDATE_GOLDEN=1 rewrites them.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"
#include "tests/cli/shell.h"

namespace pipeledger::testing {
namespace {

constexpr std::string_view kBegin = "```\n$ pipeledger ";
constexpr std::string_view kEnd = "\n```\n";

/// The text with each block's output replaced by what its command prints.
std::string with_outputs(const Workplace& here, const std::string& text) {
  std::string out;
  std::size_t at = 0;
  for (std::size_t begin = text.find(kBegin); begin != std::string::npos;
       begin = text.find(kBegin, at)) {
    const std::size_t command = begin + 6;
    const std::size_t line_end = text.find('\n', command);
    const std::size_t end = text.find(kEnd, line_end);
    const Outcome outcome = here.run(text.substr(command, line_end - command));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    out += text.substr(at, line_end + 1 - at) + outcome.out;
    at = end + 1;
  }
  return out + text.substr(at);
}

TEST(Docs, ShowWhatTheProgramPrints) {
  const Workplace here;
  for (const std::string file : {"schedules.md", "vpp-and-bubble.md"}) {
    const std::string path = PIPELEDGER_SOURCE_DIR "/docs/" + file;
    const std::string text = read_file(path);
    const std::string now = with_outputs(here, text);
    if (std::getenv("UPDATE_GOLDEN") != nullptr) write_file(path, now);
    EXPECT_EQ(now, read_file(path)) << file;
  }
}

}  // namespace
}  // namespace pipeledger::testing
