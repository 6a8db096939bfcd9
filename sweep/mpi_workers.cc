#include "sweep/mpi_workers.h"

#include <mpi.h>
#include <poll.h>

#include <cstdint>

namespace pipeledger {
namespace {

constexpr std::uint64_t kGoHome = ~std::uint64_t{0};
constexpr int kPiece = 1;
constexpr int kResult = 2;

}  // namespace

MpiJob::MpiJob(const Work& work) : work_(work) {
  // Before MPI_Init, which holds resources that a fork would double.
  worker_.emplace(work_, std::vector<int>{});
  ::MPI_Init(nullptr, nullptr);
  ::MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  ::MPI_Comm_size(MPI_COMM_WORLD, &size_);
  busy_.assign(static_cast<std::size_t>(size_), false);
  pieces_.assign(static_cast<std::size_t>(size_), 0);
}

MpiJob::~MpiJob() {
  if (rank_ == 0) {
    for (int rank = 1; rank < size_; ++rank)
      ::MPI_Send(&kGoHome, 1, MPI_UINT64_T, rank, kPiece, MPI_COMM_WORLD);
  }
  worker_.reset();
  ::MPI_Finalize();
}

WorkerProcess& MpiJob::worker() {
  if (worker_->is_gone()) worker_.emplace(work_, std::vector<int>{});
  return *worker_;
}

void MpiJob::serve() {
  for (;;) {
    std::uint64_t index = 0;
    ::MPI_Recv(&index, 1, MPI_UINT64_T, 0, kPiece, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (index == kGoHome) return;
    worker().give(index);
    const WorkDone piece = worker_->take();
    // One letter says whether what follows is a result or why there is none.
    const std::string message = piece.lost.empty() ? "r" + piece.result : "l" + piece.lost;
    ::MPI_Send(message.data(), static_cast<int>(message.size()), MPI_BYTE, 0, kResult,
               MPI_COMM_WORLD);
  }
}

void MpiJob::send_next(int rank, WorkQueue& queue) {
  const std::uint64_t index = queue.next();
  pieces_[static_cast<std::size_t>(rank)] = index;
  busy_[static_cast<std::size_t>(rank)] = true;
  ::MPI_Send(&index, 1, MPI_UINT64_T, rank, kPiece, MPI_COMM_WORLD);
}

bool MpiJob::receive_one(WorkQueue& queue, const OnDone& on_done) {
  int arrived = 0;
  MPI_Status status;
  ::MPI_Iprobe(MPI_ANY_SOURCE, kResult, MPI_COMM_WORLD, &arrived, &status);
  if (arrived == 0) return false;
  int size = 0;
  ::MPI_Get_count(&status, MPI_BYTE, &size);
  std::string message(static_cast<std::size_t>(size), '\0');
  ::MPI_Recv(message.data(), size, MPI_BYTE, status.MPI_SOURCE, kResult, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
  const auto rank = static_cast<std::size_t>(status.MPI_SOURCE);
  busy_[rank] = false;
  WorkDone piece{.index = pieces_[rank]};
  (message.starts_with('r') ? piece.result : piece.lost) = message.substr(1);
  queue.done(piece, on_done);
  return true;
}

void MpiJob::run(const std::vector<std::size_t>& indices, const OnDone& on_done) {
  constexpr int kPollMs = 1;
  WorkQueue queue(indices);
  while (!queue.all_done()) {
    for (int rank = 1; rank < size_ && !queue.empty(); ++rank) {
      if (!busy_[static_cast<std::size_t>(rank)]) send_next(rank, queue);
    }
    if (!worker().is_busy() && !queue.empty()) worker_->give(queue.next());
    while (receive_one(queue, on_done)) {
    }
    pollfd file{worker_->is_busy() ? worker_->result_file() : -1, POLLIN, 0};
    if (::poll(&file, 1, kPollMs) > 0) queue.done(worker_->take(), on_done);
  }
}

}  // namespace pipeledger
