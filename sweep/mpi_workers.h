// The same work shared out over the ranks of an MPI job, on one machine or many.
#pragma once

#include <optional>

#include "sweep/workers.h"

namespace pipeledger {

/// mpirun started this process as one of several. Known without MPI too.
bool started_by_mpirun();

/// MPI, from MPI_Init to MPI_Finalize: at most one a process. Rank 0 hands out the pieces and is
/// the only one to see results; it works too. Every rank computes in a process of its own beside
/// it, so that a crash takes one piece only. A rank that dies ends the job, as MPI has it; what
/// rank 0 was told before is not lost.
class MpiJob {
 public:
  /// Throws RunError where pipeledger was built without MPI.
  explicit MpiJob(const Work& work);
  /// On rank 0 sends the others home.
  ~MpiJob();
  MpiJob(const MpiJob&) = delete;
  MpiJob& operator=(const MpiJob&) = delete;

  bool is_first_rank() const { return rank_ == 0; }

  /// On rank 0: as run_in_processes.
  void run(const std::vector<std::size_t>& indices, const OnDone& on_done);
  /// On the other ranks: works until rank 0 is done.
  void serve();

 private:
  WorkerProcess& worker();
  void send_next(int rank, WorkQueue& queue);
  bool receive_one(WorkQueue& queue, const OnDone& on_done);

  Work work_;
  std::optional<WorkerProcess> worker_;
  NoBrokenPipeSignal guard_;
  int rank_ = 0;
  int size_ = 1;
  // On rank 0, of each other rank: whether it works, and on what.
  std::vector<bool> busy_;
  std::vector<std::size_t> pieces_;
};

}  // namespace pipeledger
