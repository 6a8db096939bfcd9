// Whether mpirun is there needs no MPI.
#include <cstdlib>

#include "sweep/mpi_workers.h"

namespace pipeledger {

bool started_by_mpirun() {
  const char* size = std::getenv("OMPI_COMM_WORLD_SIZE");
  return size != nullptr && std::atoi(size) > 1;
}

}  // namespace pipeledger
