#include "sweep/threads.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace pipeledger {
namespace {

/// What the workers and the thread that waits for them share.
class Pool {
 public:
  Pool(const std::vector<std::size_t>& indices, const Work& work, const std::stop_token& stop)
      : indices_(indices), work_(work), stop_(stop) {}

  /// In a worker: pieces until there are none, or nobody wants them.
  void work_off() {
    while (const std::size_t* index = take()) {
      WorkDone piece{.index = *index};
      std::exception_ptr wrong;
      try {
        piece.result = work_(*index);
      } catch (...) {
        wrong = std::current_exception();
      }
      const std::lock_guard lock(mutex_);
      if (wrong && !wrong_) wrong_ = wrong;
      if (!wrong) done_.push_back(std::move(piece));
      --num_begun_;
      changed_.notify_one();
    }
  }

  /// The next piece that is done. False: none will come.
  bool wait(WorkDone& piece) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !done_.empty() || (num_begun_ == 0 && !has_more()); });
    if (wrong_) std::rethrow_exception(wrong_);
    if (done_.empty()) return false;
    piece = std::move(done_.front());
    done_.pop_front();
    return true;
  }

  void give_up() {
    const std::lock_guard lock(mutex_);
    is_given_up_ = true;
  }

 private:
  bool has_more() const {
    return next_ < indices_.size() && !wrong_ && !is_given_up_ && !stop_.stop_requested();
  }

  const std::size_t* take() {
    const std::lock_guard lock(mutex_);
    if (!has_more()) {
      changed_.notify_one();
      return nullptr;
    }
    ++num_begun_;
    return &indices_[next_++];
  }

  const std::vector<std::size_t>& indices_;
  const Work& work_;
  const std::stop_token& stop_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<WorkDone> done_;
  std::size_t next_ = 0;
  std::size_t num_begun_ = 0;  // and not yet done
  std::exception_ptr wrong_;
  bool is_given_up_ = false;
};

}  // namespace

bool run_in_threads(const std::vector<std::size_t>& indices, const Work& work, int num_threads,
                    const OnDone& on_done, const std::stop_token& stop) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const auto wanted = static_cast<std::size_t>(num_threads > 0 ? num_threads : cores);
  Pool pool(indices, work, stop);
  std::vector<std::jthread> threads;
  // What is thrown from here on goes through the threads' end: they are joined first.
  struct GiveUp {
    Pool& pool;
    ~GiveUp() { pool.give_up(); }
  };
  const GiveUp at_end{pool};
  while (threads.size() < std::min(wanted, indices.size()))
    threads.emplace_back([&pool] { pool.work_off(); });
  std::size_t num_done = 0;
  for (WorkDone piece; pool.wait(piece); ++num_done) on_done(piece);
  return num_done == indices.size();
}

}  // namespace pipeledger
