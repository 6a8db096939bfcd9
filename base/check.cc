#include "base/check.h"

#include "base/internal_error.h"

namespace pipeledger {

void check_failed(const char* condition, const char* file, int line, std::string_view details) {
  throw InternalError(
      fmt::format("internal error at {}:{}: {} ({})", file, line, condition, details));
}

}  // namespace pipeledger
