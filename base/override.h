// A name and the value it is given outside the file: on the command line, or in a host's code.
#pragma once

#include <string>
#include <string_view>

namespace pipeledger {

/// The place that problems of --set name.
inline constexpr std::string_view kSetFlag = "--set";

/// `--set path=value`, applied after the file is read and before it is checked; or `--set-env
/// NAME=value`, a variable of a launch script.
struct Override {
  std::string path;
  std::string value;
  std::string place{kSetFlag};  // what problems of it name; empty: nothing but the field
};

}  // namespace pipeledger
