// Help that fits a screen of 24 x 80, and what is said about a command line that is wrong.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace pipeledger {

/// Description, usage, one table of arguments and options with their defaults, and the footer's
/// examples. The parent's formatter is every command's: set it before commands are added.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
};

/// The commands that help lists: the others have no group.
std::vector<const CLI::App*> listed_commands(const CLI::App& app);
/// Arguments first, --help last.
std::vector<const CLI::Option*> in_reading_order(const CLI::App& app);
/// An option's description with its default.
std::string text_of(const CLI::Option& option);

/// "pipeledger run: --fromat is not an option; did you mean --format? See pipeledger run --help":
/// for an error of app.parse.
std::string complaint(const CLI::App& app, const CLI::ParseError& error);

/// Where the command should be stands `word`, which is none.
std::string unknown_command(const CLI::App& app, const std::string& word);

/// `word` names a command of `app`, listed or not.
bool is_command(const CLI::App& app, const std::string& word);

}  // namespace pipeledger
