// What a sweep has computed so far, on disk: a point is computed once, however often it is killed.
#pragma once

#include <cstdio>
#include <filesystem>
#include <map>
#include <string>

#include "sweep/outcome.h"

namespace pipeledger {

/// Lines of JSON: the first says which sweep it is, each other holds one point's outcome and is on
/// disk before the next begins. A last line that a kill cut short is dropped.
class Journal {
 public:
  /// Opens or makes `file`. `identity` stands for everything that the outcomes depend on.
  /// Throws InputError when the file belongs to another sweep or is no journal, RunError when it
  /// cannot be written.
  Journal(const std::filesystem::path& file, const std::string& identity);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// What was there when it was opened, by engine and point.
  const std::map<std::size_t, Outcome>& found(EngineKind engine) const;

  void add(EngineKind engine, std::size_t point, const Outcome& outcome);

 private:
  void read(const std::filesystem::path& file, const std::string& identity);

  std::map<std::size_t, Outcome> fast_, simgrid_;
  std::filesystem::path path_;
  std::FILE* file_ = nullptr;
};

}  // namespace pipeledger
