#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace pipeledger {

void check_failed(const char* condition, const char* file, int line, std::string_view details) {
  fmt::print(stderr, "pipeledger: internal error at {}:{}: {} ({})\n", file, line, condition,
             details);
  std::abort();
}

}  // namespace pipeledger
