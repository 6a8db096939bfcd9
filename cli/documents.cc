// A command for the build, which help does not list: the program's texts for man and the shells.
#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/options.h"

namespace pipeledger {

void add_documents_command(CLI::App& app) {
  auto kind = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("documents", "The man page, or a shell's completions");
  command->group("");
  add_choice_option(*command, "KIND", *kind, {"man", "bash", "zsh", "fish"}, "Which one");
  command->get_option("KIND")->required();
  command->callback([kind, &app] {
    const std::vector<CommandText> commands = command_line(app);
    print_result(*kind == "man"    ? man_page(commands, PIPELEDGER_VERSION)
                 : *kind == "bash" ? bash_completion(commands)
                 : *kind == "zsh"  ? zsh_completion(commands)
                                   : fish_completion(commands));
  });
}

}  // namespace pipeledger
