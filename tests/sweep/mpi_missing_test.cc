// The build without MPI: sweep/mpi_missing.cc, which this executable links in the place of MPI's.
#include <gmock/gmock.h>

#include <cstdlib>

#include "base/problem.h"
#include "sweep/mpi_workers.h"

namespace pipeledger {
namespace {

TEST(WithoutMpi, AnMpirunIsNoticed) {
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
  EXPECT_FALSE(started_by_mpirun());
  ::setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
  EXPECT_FALSE(started_by_mpirun());
  ::setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  EXPECT_TRUE(started_by_mpirun());
}

TEST(WithoutMpi, AJobIsRefusedInWordsThatHelp) {
  EXPECT_THAT([] { MpiJob job([](std::size_t) { return std::string(); }); },
              testing::ThrowsMessage<RunError>(testing::HasSubstr("built without MPI")));
}

}  // namespace
}  // namespace pipeledger
