#include "pipeledger/version.h"

namespace pipeledger {

std::string_view version() { return PIPELEDGER_VERSION; }

}  // namespace pipeledger
