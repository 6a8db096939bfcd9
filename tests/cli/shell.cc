#include "tests/cli/shell.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

#include "base/file.h"

namespace pipeledger::testing {
namespace {

namespace fs = std::filesystem;

}  // namespace

Workplace::Workplace() {
  std::string name = (fs::temp_directory_path() / "pipeledger_cli_XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error(name + " cannot be made");
  path_ = name;
  fs::create_directory(path_ / "here");
  fs::create_directory_symlink(fs::absolute(PIPELEDGER_SOURCE_DIR "/examples"),
                               path_ / "here" / "examples");
}

Workplace::~Workplace() {
  std::error_code error;
  fs::remove_all(path_, error);
}

Outcome Workplace::run(const std::string& command) const {
  write("../command", command);
  const fs::path program = PIPELEDGER_PROGRAM;
  const std::string line = fmt::format(
      "cd '{0}/here' && PATH='{1}':\"$PATH\" bash ../command >../out 2>../err </dev/null",
      path_.string(), program.parent_path().string());
  const int status = std::system(line.c_str());
  return {.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          .out = read("../out"),
          .err = read("../err")};
}

std::vector<std::string> Workplace::list(const std::string& folder) const {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_ / "here" / folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string Workplace::read(const std::string& file) const {
  return read_file(path_ / "here" / file);
}

void Workplace::write(const std::string& file, const std::string& text) const {
  write_file(path_ / "here" / file, text);
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> result;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) result.push_back(line);
  return result;
}

std::vector<std::string> commands() {
  std::vector<std::string> names;
  for (const std::string& line : lines(Workplace().run("pipeledger --help").out)) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    // The table's rows are indented by two; an option begins with a dash.
    if (line.starts_with("  ") && line[2] != ' ' && line[2] != '-' && name != "pipeledger")
      names.push_back(name);
  }
  return names;
}

std::vector<std::string> examples_of(const std::string& help) {
  std::vector<std::string> result;
  for (const std::string& line : lines(help)) {
    if (line.starts_with("  pipeledger ")) result.push_back(line.substr(2));
  }
  return result;
}

}  // namespace pipeledger::testing
