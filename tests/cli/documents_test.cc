// The man page and the shells' completions name every command and option that help names.
#include <gmock/gmock.h>

#include <map>
#include <set>
#include <sstream>

#include "base/text.h"
#include "tests/cli/shell.h"

namespace pipeledger::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAreArray;

/// The options in the left column of a command's help: "-o", "--output", ...
std::vector<std::string> options_of(const std::string& help) {
  std::vector<std::string> names;
  for (const std::string& line : lines(help)) {
    if (!line.starts_with("  -")) continue;
    std::istringstream words(line);
    for (std::string word; words >> word && word.starts_with('-');)
      names.push_back(word.substr(0, word.find(',')));
  }
  return names;
}

/// By command, "" being the program.
std::map<std::string, std::vector<std::string>> options(const Workplace& here) {
  std::map<std::string, std::vector<std::string>> all;
  std::vector<std::string> asked = commands();
  asked.push_back("");
  for (const std::string& command : asked)
    all[command] = options_of(here.run("pipeledger " + command + " --help").out);
  return all;
}

/// What bash would offer behind these words; the last one is being typed.
std::vector<std::string> bash_offers(const Workplace& here, std::vector<std::string> words) {
  here.run("pipeledger documents bash > completions");
  const Outcome outcome = here.run("source ./completions; COMP_WORDS=('" + join(words, "' '") +
                                   "'); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _pipeledger; "
                                   "printf '%s\\n' \"${COMPREPLY[@]}\"");
  EXPECT_EQ(outcome.err, "");
  std::vector<std::string> offers = lines(outcome.out);
  if (offers == std::vector<std::string>{""}) offers.clear();
  return offers;
}

TEST(Documents, AreAskedForByTheBuildAlone) {
  const Workplace here;
  EXPECT_THAT(here.run("pipeledger --help").out, Not(HasSubstr("documents")));
  EXPECT_THAT(here.run("pipeledger document").err, Not(HasSubstr("documents")));
  EXPECT_EQ(here.run("pipeledger documents ksh").status, 2);
}

TEST(Documents, BashOffersEveryCommandAndOption) {
  const Workplace here;
  std::vector<std::string> first = bash_offers(here, {"pipeledger", ""});
  EXPECT_THAT(first, UnorderedElementsAreArray(commands()));
  for (const auto& [command, names] : options(here)) {
    SCOPED_TRACE(command);
    std::vector<std::string> words = {"pipeledger", command, "-"};
    if (command.empty()) words.erase(words.begin() + 1);
    EXPECT_THAT(names, Not(IsEmpty()));
    EXPECT_THAT(bash_offers(here, words), UnorderedElementsAreArray(names));
  }
}

TEST(Documents, BashOffersTheWordsThatAnOptionTakes) {
  const Workplace here;
  EXPECT_THAT(bash_offers(here, {"pipeledger", "run", "--format", ""}),
              ElementsAre("text", "json"));
  EXPECT_THAT(bash_offers(here, {"pipeledger", "run", "--format", "j"}), ElementsAre("json"));
  EXPECT_THAT(bash_offers(here, {"pipeledger", "run", "--format", "="}),
              ElementsAre("text", "json"));
  EXPECT_THAT(bash_offers(here, {"pipeledger", "run", "--format", "=", "t"}), ElementsAre("text"));
  EXPECT_THAT(bash_offers(here, {"pipeledger", "run", "exam"}), ElementsAre("examples"));
  EXPECT_THAT(bash_offers(here, {"pipeledger", "view", "examples/tiny.js"}),
              ElementsAre("examples/tiny.json"));
  // A folder is meant, and tiny.json is none.
  EXPECT_THAT(bash_offers(here, {"pipeledger", "run", "-o", "examples/tiny.js"}), IsEmpty());
  EXPECT_THAT(bash_offers(here, {"pipeledger", "run", "--set", "t"}), IsEmpty());
}

TEST(Documents, ZshAndFishHoldEveryCommandAndOption) {
  const Workplace here;
  const std::string zsh = here.run("pipeledger documents zsh").out;
  const std::string fish = here.run("pipeledger documents fish").out;
  for (const auto& [command, names] : options(here)) {
    SCOPED_TRACE(command);
    std::string part = zsh;
    if (!command.empty()) {
      const std::size_t begin = zsh.find("    " + command + ")\n");
      ASSERT_NE(begin, std::string::npos);
      part = zsh.substr(begin, zsh.find(";;", begin) - begin);
      EXPECT_THAT(zsh, HasSubstr("    '" + command + ":"));
      EXPECT_THAT(fish, HasSubstr(" -f -a " + command + " -d "));
    }
    std::set<std::string> told;
    const std::string condition =
        command.empty() ? "__fish_use_subcommand" : "'__fish_seen_subcommand_from " + command + "'";
    for (const std::string& line : lines(fish)) {
      if (line.find("-n " + condition) == std::string::npos &&
          line.find("-n '" + condition + "'") == std::string::npos)
        continue;
      std::istringstream words(line.substr(0, line.find(" -d ")));
      for (std::string word, before; words >> word; before = word) {
        if (before == "-l") told.insert("--" + word);
        if (before == "-s") told.insert("-" + word);
      }
    }
    EXPECT_THAT(told, UnorderedElementsAreArray(names)) << fish;
    for (const std::string& name : names) EXPECT_THAT(part, HasSubstr("'*" + name + "["));
  }
}

TEST(Documents, EachShellReadsItsOwn) {
  const Workplace here;
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    if (here.run("command -v " + shell).status != 0) continue;
    const Outcome read = here.run("pipeledger documents " + shell + " > completions && " + shell +
                                  " -n completions");
    EXPECT_EQ(read.status, 0) << shell << ": " << read.err;
  }
}

TEST(Documents, TheManPageHoldsWhatHelpSays) {
  const Workplace here;
  std::string page;
  for (const char c : here.run("pipeledger documents man").out)
    if (c != '\\') page += c;
  for (const auto& [command, names] : options(here)) {
    SCOPED_TRACE(command);
    std::string part = page.substr(0, page.find(".SH COMMANDS"));
    if (!command.empty()) {
      const std::size_t begin = page.find(".SS " + command + "\n");
      ASSERT_NE(begin, std::string::npos);
      part = page.substr(begin, page.find("\n.S", begin) - begin);
    }
    for (const std::string& name : names) EXPECT_THAT(part, HasSubstr("fB" + name + "fR"));
    const std::string help = here.run("pipeledger " + command + " --help").out;
    EXPECT_THAT(part, HasSubstr(lines(help).front()));
    for (const std::string& example : examples_of(help)) EXPECT_THAT(page, HasSubstr(example));
  }
  EXPECT_THAT(page, HasSubstr("\"pipeledger " PIPELEDGER_VERSION "\""));
}

TEST(Documents, GroffFindsNothingWrongWithTheManPage) {
  const Workplace here;
  if (here.run("command -v groff").status != 0) GTEST_SKIP() << "groff is not installed";
  const Outcome read = here.run("pipeledger documents man | groff -man -Tutf8 -ww -z");
  EXPECT_EQ(read.status, 0);
  EXPECT_EQ(read.err, "");
}

}  // namespace
}  // namespace pipeledger::testing
