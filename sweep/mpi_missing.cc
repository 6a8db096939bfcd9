// In the place of mpi_workers.cc where the build found no MPI.
#include "base/problem.h"
#include "sweep/mpi_workers.h"

namespace pipeledger {

MpiJob::MpiJob(const Work& work) : work_(work) {
  throw RunError(
      "mpirun started several of us, but this pipeledger was built without MPI; start one without "
      "mpirun (-j: processes), or build it where MPI is installed (libopenmpi-dev)");
}

// There is no job to call these on.
MpiJob::~MpiJob() = default;
void MpiJob::run(const std::vector<std::size_t>& /*indices*/, const OnDone& /*on_done*/) {}
void MpiJob::serve() {}

}  // namespace pipeledger
