// A name and the value it is given on the command line.
#pragma once

#include <string>

namespace pipeledger {

/// `--set path=value`, applied after the file is read and before it is checked; or `--set-env
/// NAME=value`, a variable of a launch script.
struct Override {
  std::string path;
  std::string value;
};

}  // namespace pipeledger
