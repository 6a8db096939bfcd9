#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

namespace pipeledger {
namespace {

constexpr const char* kEraseToEnd = "\x1b[K";
constexpr std::chrono::milliseconds kPatience{1000};
constexpr std::chrono::milliseconds kInterval{200};

}  // namespace

ProgressLine::ProgressLine() : terminal_(::isatty(STDERR_FILENO) != 0) {}

ProgressLine::~ProgressLine() {
  if (shown_) fmt::print(stderr, "\r{}", kEraseToEnd);
}

std::function<void(double)> ProgressLine::callback() {
  if (!terminal_) return {};
  return [this](double done) {
    if (Clock::now() >= next_) show(fmt::format("simulating {:.0f} %", 100 * done));
    return true;
  };
}

void ProgressLine::bar(const std::string& what, std::size_t done, std::size_t total) {
  if (!terminal_ || Clock::now() < next_) return;
  constexpr std::size_t kWidth = 30;
  const std::size_t filled = total == 0 ? kWidth : kWidth * done / total;
  show(fmt::format("{} [{}{}] {} of {}", what, std::string(filled, '#'),
                   std::string(kWidth - filled, ' '), done, total));
}

void ProgressLine::show(const std::string& text) {
  if (!terminal_ || Clock::now() < begin_ + kPatience) return;
  next_ = Clock::now() + kInterval;
  shown_ = true;
  fmt::print(stderr, "\r{}{}", text, kEraseToEnd);
}

}  // namespace pipeledger
