#include "base/file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/problem.h"

namespace pipeledger {
namespace {

TEST(File, GzipComesBackAndIsRepeatable) {
  const std::string text(100000, 'x');
  EXPECT_EQ(gzip(text), gzip(text));
  EXPECT_EQ(gunzip(gzip(text), "x.gz"), text);
  EXPECT_THROW(gunzip(gzip(text).substr(0, 20), "x.gz"), InputError);
}

TEST(File, WritingLeavesNoTemporaryBehind) {
  const std::filesystem::path folder = testing::TempDir() + "/pipeledger_file_test";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  write_file(folder / "a", "one");
  write_file(folder / "a", "two");
  EXPECT_EQ(read_file(folder / "a"), "two");
  EXPECT_THROW(write_file(folder / "missing" / "a", "x"), RunError);
  int num_files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder))
    ++num_files;
  EXPECT_EQ(num_files, 1);
}

}  // namespace
}  // namespace pipeledger
