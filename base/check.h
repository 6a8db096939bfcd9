// Assertions for bugs on our side: never compiled out, and they tell their values.
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace pipeledger {

/// Throws InternalError (base/internal_error.h) with the condition, where it stands and `details`.
[[noreturn]] void check_failed(const char* condition, const char* file, int line,
                               std::string_view details);

}  // namespace pipeledger

/// PIPELEDGER_CHECK(a == b, "a={} b={}", a, b)
#define PIPELEDGER_CHECK(condition, ...) \
  ((condition)                           \
       ? static_cast<void>(0)            \
       : ::pipeledger::check_failed(#condition, __FILE__, __LINE__, ::fmt::format(__VA_ARGS__)))
