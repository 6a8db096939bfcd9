#include "cli/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"

namespace pipeledger {
namespace {

constexpr std::size_t kScreenWidth = 80;
constexpr std::size_t kTextColumn = 24;

/// A left word and its text, wrapped beside it; a word too long for its column stands alone.
std::string row(const std::string& left, const std::string& text) {
  std::string out;
  std::string line = "  " + left;
  if (line.size() + 2 > kTextColumn) {
    out = line + "\n";
    line.clear();
  }
  line.resize(kTextColumn, ' ');
  bool fresh = true;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!fresh && line.size() + 1 + word.size() > kScreenWidth) {
      out += line + "\n";
      line.assign(kTextColumn, ' ');
      fresh = true;
    }
    if (!fresh) line += ' ';
    line += word;
    fresh = false;
  }
  return out + line + "\n";
}

std::string left_of(const CLI::Option& option) {
  std::string left = option.get_name(option.get_positional(), true);
  if (const std::size_t comma = left.find(','); comma != std::string::npos)
    left.replace(comma, 1, ", ");
  const bool takes_value = option.get_type_size() != 0 && option.nonpositional();
  const std::string type = option.get_type_name();
  return takes_value && !type.empty() ? left + " " + type : left;
}

std::string usage(const CLI::App& app, const std::string& name) {
  std::string out = "usage: " + name;
  if (!app.get_subcommands({}).empty()) out += " COMMAND";
  out += " [options]";
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    const std::string word = option->get_name(true);
    out += option->get_required() ? " " + word : " [" + word + "]";
  }
  return out;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : listed_commands(app)) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& names) {
  const std::string close = nearest(word, names);
  return close.empty() ? "" : fmt::format("; did you mean {}?", close);
}

/// Empty: every flag is known.
std::string unknown_flag(const CLI::App& command) {
  for (const std::string& word : command.remaining(true)) {
    if (!word.starts_with('-')) continue;
    const std::string name = word.substr(0, word.find('='));
    return fmt::format("{} is not an option{}", name, did_you_mean(name, option_names(command)));
  }
  return "";
}

std::string one_too_many(const CLI::App& command) {
  const std::vector<std::string> words = command.remaining(true);
  return fmt::format("'{}' is one argument too many", words.empty() ? "" : words.front());
}

/// "Could not convert: --ranks = x", CLI11's words, in ours: what converts here are numbers.
std::string not_a_number(const std::string& message) {
  const std::string option_and_value = message.substr(message.find("--"));
  return fmt::format("{} is not a whole number below 2^31", option_and_value);
}

std::string see_help(const std::string& sentence, const std::string& command) {
  const char* stop = sentence.ends_with('?') ? "" : ".";
  return fmt::format("{}: {}{} See {} --help", command, sentence, stop, command);
}

}  // namespace

std::vector<const CLI::App*> listed_commands(const CLI::App& app) {
  std::vector<const CLI::App*> commands;
  for (const CLI::App* command : app.get_subcommands({}))
    if (!command->get_group().empty()) commands.push_back(command);
  return commands;
}

std::vector<const CLI::Option*> in_reading_order(const CLI::App& app) {
  std::vector<const CLI::Option*> options = app.get_options();
  // CLI11 puts --help first; readers look for the arguments there.
  std::stable_sort(options.begin(), options.end(), [&app](const auto* a, const auto* b) {
    const auto key = [&app](const CLI::Option* option) {
      return option->get_positional() ? 0 : option == app.get_help_ptr() ? 2 : 1;
    };
    return key(a) < key(b);
  });
  return options;
}

std::string text_of(const CLI::Option& option) {
  const std::string preset = option.get_default_str();
  if (preset.empty()) return option.get_description();
  return fmt::format("{} (default: {})", option.get_description(), preset);
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name,
                                     CLI::AppFormatMode /*mode*/) const {
  std::string out = fmt::format("{}\n\n{}\n\n", app->get_description(), usage(*app, name));
  for (const CLI::App* command : listed_commands(*app))
    out += row(command->get_name(), command->get_description());
  for (const CLI::Option* option : in_reading_order(*app))
    if (!option->get_group().empty()) out += row(left_of(*option), text_of(*option));
  return fmt::format("{}\n{}\n", out, app->get_footer());
}

std::string complaint(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const CLI::App& command = chosen.empty() ? app : *chosen.front();
  const std::string name =
      chosen.empty() ? app.get_name() : app.get_name() + " " + command.get_name();
  const bool extra = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  // A mistyped flag explains what else is wrong, as a value that went to the wrong place.
  const std::string unknown = unknown_flag(command);
  if (!unknown.empty()) return see_help(unknown, name);
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr)
    return see_help(not_a_number(error.what()), name);
  return see_help(extra ? one_too_many(command) : error.what(), name);
}

std::string unknown_command(const CLI::App& app, const std::string& word) {
  const std::vector<std::string> names = command_names(app);
  std::string sentence;
  if (word.starts_with('-')) {
    sentence = fmt::format("{} stands where a command belongs; one of: {}", word, join(names));
  } else if (std::filesystem::exists(word)) {
    sentence = fmt::format("'{}' is a file, not a command; to simulate it: {} run {}", word,
                           app.get_name(), word);
  } else {
    const std::string hint = did_you_mean(word, names);
    sentence = fmt::format("'{}' is not a command{}", word,
                           hint.empty() ? "; one of: " + join(names) : hint);
  }
  return see_help(sentence, app.get_name());
}

bool is_command(const CLI::App& app, const std::string& word) {
  const std::vector<const CLI::App*> commands = app.get_subcommands({});
  return std::any_of(commands.begin(), commands.end(),
                     [&](const CLI::App* command) { return command->get_name() == word; });
}

}  // namespace pipeledger
