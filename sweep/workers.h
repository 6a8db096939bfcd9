// Work shared out over processes: SimGrid has one clock a process, and a crash takes one point
// only.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace pipeledger {

/// What became of one piece of work.
struct WorkDone {
  std::size_t index = 0;
  std::string result;
  std::string lost;  // why there is no result: "its process was killed by signal 9"
};

using Work = std::function<std::string(std::size_t)>;
using OnDone = std::function<void(const WorkDone&)>;

/// A process that does pieces of work as they are given to it, one at a time.
class WorkerProcess {
 public:
  /// Forks. `close_in_child` are files of other workers: while a child holds them open, their end
  /// is not seen. Throws RunError when no process can be made.
  WorkerProcess(const Work& work, const std::vector<int>& close_in_child);
  /// Ends it; in the middle of a piece, kills it.
  ~WorkerProcess();
  WorkerProcess(WorkerProcess&& other) noexcept;
  WorkerProcess& operator=(WorkerProcess&&) = delete;

  void give(std::size_t index);
  /// Waits for the piece given last. Lost: the process is no more.
  WorkDone take();

  bool is_busy() const { return busy_; }
  bool is_gone() const { return process_ == 0; }
  /// Readable when take() would not wait long.
  int result_file() const { return from_; }
  std::vector<int> files() const { return {to_, from_}; }

 private:
  std::string wait_for_end();

  int process_ = 0;  // 0: ended
  int to_ = -1;      // indices, 8 bytes each
  int from_ = -1;    // results: 8 bytes of length, then the text
  std::size_t index_ = 0;
  bool busy_ = false;
};

/// Pieces still to be handed out: those lost come again, once.
class WorkQueue {
 public:
  explicit WorkQueue(const std::vector<std::size_t>& indices)
      : waiting_(indices.begin(), indices.end()), num_open_(indices.size()) {}

  bool empty() const { return waiting_.empty(); }
  std::size_t size() const { return waiting_.size(); }
  /// Nothing waits and nothing is being done.
  bool all_done() const { return num_open_ == 0; }
  std::size_t next();
  /// Passes it on to on_done, or puts a piece lost for the first time back.
  void done(const WorkDone& piece, const OnDone& on_done);

 private:
  std::deque<std::size_t> waiting_;
  std::set<std::size_t> lost_once_;
  std::size_t num_open_;
};

/// While it lives, writing to a worker that has died is an error and not the end of us.
class NoBrokenPipeSignal {
 public:
  NoBrokenPipeSignal();
  ~NoBrokenPipeSignal();
  NoBrokenPipeSignal(const NoBrokenPipeSignal&) = delete;
  NoBrokenPipeSignal& operator=(const NoBrokenPipeSignal&) = delete;

 private:
  void (*before_)(int);
};

/// Calls work(index) in other processes and on_done here, in any order, for every index. A piece
/// whose process dies is tried a second time, then given up as lost. `work` must not throw.
/// Throws RunError when no process can be made.
void run_in_processes(const std::vector<std::size_t>& indices, const Work& work, int num_workers,
                      const OnDone& on_done);

/// What `work` gives, done in a process of its own: for what can be done but once a process. Ends
/// this process as that one ended, when it died.
std::string in_own_process(const std::function<std::string()>& work);

}  // namespace pipeledger
