#include "sweep/workers.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <list>
#include <system_error>
#include <utility>

#include "base/problem.h"

namespace pipeledger {
namespace {

/// All of it, or false at the end of the pipe.
bool read_all(int file, void* into, std::size_t size) {
  auto* at = static_cast<char*>(into);
  while (size > 0) {
    const ssize_t got = ::read(file, at, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

bool write_all(int file, const void* from, std::size_t size) {
  const auto* at = static_cast<const char*>(from);
  while (size > 0) {
    const ssize_t put = ::write(file, at, size);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    at += put;
    size -= static_cast<std::size_t>(put);
  }
  return true;
}

bool send(int out, const std::string& result) {
  const std::uint64_t length = result.size();
  return write_all(out, &length, sizeof length) && write_all(out, result.data(), result.size());
}

bool receive(int in, std::string& result) {
  std::uint64_t length = 0;
  if (!read_all(in, &length, sizeof length)) return false;
  result.resize(length);
  return read_all(in, result.data(), length);
}

[[noreturn]] void work_until_closed(int in, int out, const Work& work) {
  std::uint64_t index = 0;
  while (read_all(in, &index, sizeof index)) {
    if (!send(out, work(index))) break;
  }
  ::_exit(0);
}

[[noreturn]] void fail(const char* what, int error) {
  throw RunError(fmt::format("{}: {}", what, std::generic_category().message(error)));
}

struct Pipe {
  int read = -1;
  int write = -1;

  Pipe() {
    int ends[2];
    if (::pipe(ends) != 0) fail("a pipe cannot be made", errno);
    read = ends[0];
    write = ends[1];
  }
  void close() const {
    ::close(read);
    ::close(write);
  }
};

int status_of(pid_t process) {
  int status = 0;
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

WorkerProcess::WorkerProcess(const Work& work, const std::vector<int>& close_in_child) {
  const Pipe down;
  const Pipe up;
  process_ = ::fork();
  if (process_ == 0) {
    for (const int file : close_in_child) ::close(file);
    ::close(down.write);
    ::close(up.read);
    work_until_closed(down.read, up.write, work);
  }
  if (process_ < 0) {
    const int error = errno;
    down.close();
    up.close();
    fail("a process cannot be made", error);
  }
  ::close(down.read);
  ::close(up.write);
  to_ = down.write;
  from_ = up.read;
}

WorkerProcess::WorkerProcess(WorkerProcess&& other) noexcept
    : process_(std::exchange(other.process_, 0)),
      to_(other.to_),
      from_(other.from_),
      index_(other.index_),
      busy_(other.busy_) {}

WorkerProcess::~WorkerProcess() {
  if (process_ == 0) return;
  if (busy_) ::kill(process_, SIGKILL);
  wait_for_end();
}

void WorkerProcess::give(std::size_t index) {
  index_ = index;
  busy_ = true;
  const std::uint64_t message = index;
  // One that has died meanwhile is found out when its result is awaited.
  static_cast<void>(write_all(to_, &message, sizeof message));
}

WorkDone WorkerProcess::take() {
  WorkDone piece{.index = index_};
  const bool arrived = receive(from_, piece.result);
  busy_ = false;
  if (!arrived) piece.lost = wait_for_end();
  return piece;
}

std::string WorkerProcess::wait_for_end() {
  ::close(to_);
  ::close(from_);
  const int status = status_of(std::exchange(process_, 0));
  if (!WIFSIGNALED(status))
    return fmt::format("its process ended with code {}", WEXITSTATUS(status));
  return fmt::format("its process was killed by signal {}{}", WTERMSIG(status),
                     WTERMSIG(status) == SIGKILL ? ", as when memory runs out" : "");
}

std::size_t WorkQueue::next() {
  const std::size_t index = waiting_.front();
  waiting_.pop_front();
  return index;
}

void WorkQueue::done(const WorkDone& piece, const OnDone& on_done) {
  if (!piece.lost.empty() && lost_once_.insert(piece.index).second) {
    waiting_.push_back(piece.index);
    return;
  }
  --num_open_;
  on_done(piece);
}

NoBrokenPipeSignal::NoBrokenPipeSignal() : before_(std::signal(SIGPIPE, SIG_IGN)) {}
NoBrokenPipeSignal::~NoBrokenPipeSignal() { std::signal(SIGPIPE, before_); }

void run_in_processes(const std::vector<std::size_t>& indices, const Work& work, int num_workers,
                      const OnDone& on_done) {
  const NoBrokenPipeSignal guard;
  const auto wanted = static_cast<std::size_t>(std::max(num_workers, 1));
  std::list<WorkerProcess> workers;
  WorkQueue queue(indices);
  while (!queue.all_done()) {
    std::erase_if(workers, [](const WorkerProcess& worker) { return worker.is_gone(); });
    while (workers.size() < wanted && workers.size() < indices.size()) {
      std::vector<int> files;
      for (const WorkerProcess& worker : workers)
        for (const int file : worker.files()) files.push_back(file);
      workers.emplace_back(work, files);
    }
    std::vector<pollfd> files;
    for (WorkerProcess& worker : workers) {
      if (!worker.is_busy() && !queue.empty()) worker.give(queue.next());
      // A file of -1 is one that poll passes over.
      files.push_back({worker.is_busy() ? worker.result_file() : -1, POLLIN, 0});
    }
    if (::poll(files.data(), files.size(), -1) < 0 && errno != EINTR)
      fail("the workers cannot be waited for", errno);
    auto file = files.begin();
    for (WorkerProcess& worker : workers) {
      if ((file++)->revents != 0) queue.done(worker.take(), on_done);
    }
  }
}

std::string in_own_process(const std::function<std::string()>& work) {
  const Pipe up;
  const pid_t process = ::fork();
  if (process == 0) {
    ::close(up.read);
    send(up.write, work());
    ::_exit(0);
  }
  ::close(up.write);
  std::string result;
  const bool arrived = process > 0 && receive(up.read, result);
  ::close(up.read);
  if (process < 0) fail("a process cannot be made", errno);
  const int status = status_of(process);
  if (arrived) return result;
  if (WIFSIGNALED(status)) ::raise(WTERMSIG(status));
  ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

}  // namespace pipeledger
