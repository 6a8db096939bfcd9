// The built program as a stranger meets it: through a shell.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace pipeledger::testing {

/// What a command left; `status` is its exit code, or 128 + the signal that ended it.
struct Outcome {
  int status = 0;
  std::string out;
  std::string err;
};

/// A folder of its own, with `examples` in it as in the root of the source tree; gone at the end.
class Workplace {
 public:
  Workplace();
  ~Workplace();
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// A bash command run here, with `pipeledger` on the PATH and no terminal.
  Outcome run(const std::string& command) const;

  /// Names of what lies in `folder`, sorted; below this folder.
  std::vector<std::string> list(const std::string& folder) const;

  std::string read(const std::string& file) const;
  void write(const std::string& file, const std::string& text) const;

 private:
  std::filesystem::path path_;
};

/// run, ledger, ...: the commands that `pipeledger --help` lists.
std::vector<std::string> commands();

/// The lines of a help text that are meant to be typed.
std::vector<std::string> examples_of(const std::string& help);

std::vector<std::string> lines(const std::string& text);

}  // namespace pipeledger::testing
