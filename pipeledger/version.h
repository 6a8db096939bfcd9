// Which pipeledger this is.
#pragma once

#include <string_view>

namespace pipeledger {

/// "0.2.0": of the library that is linked.
std::string_view version();

}  // namespace pipeledger
