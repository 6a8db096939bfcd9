// What a signal may not interrupt.
#pragma once

#include <csignal>

namespace pipeledger {

/// While one lives, signals that end the process (SIGINT, SIGTERM, SIGHUP) wait: a file, or several
/// that belong together, appear whole. Of the thread that makes it, which must end it.
class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace pipeledger
