// The problems of one scenario, without those that only follow from another.
#pragma once

#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "spec/fields.h"

namespace pipeledger {

class Findings {
 public:
  /// Takes over what reading found: those fields are not sound. `tolerates_idle`: a field that
  /// does nothing is a note, as Megatron's flags may; --set is never idle.
  explicit Findings(FieldReport report, bool tolerates_idle = false);

  /// A problem with `field`; not told when the field, or another that it depends on, is not sound.
  void add(const std::string& field, std::string message,
           std::initializer_list<std::string_view> depends_on = {});
  /// A field that is written and does nothing, for the reason `why`.
  void add_idle(const std::string& field, std::string_view why,
                std::initializer_list<std::string_view> depends_on = {});
  /// A problem after which nothing else is told about `field` or what lies in it.
  void reject(const std::string& field, std::string message);
  /// Problems of another file, after which nothing else is told about `field`.
  void reject(const std::string& field, const std::vector<Problem>& problems);

  /// Nothing more is told about `field` or what lies in it.
  void silence(const std::string& field) { unsound_.insert(field); }

  bool is_written(std::string_view field) const { return positions.contains(field); }
  /// Neither the field nor a group around it has a problem of reading.
  bool is_sound(std::string_view field) const;

  std::vector<Problem> problems;
  std::vector<Problem> idle;  // tolerated
  std::map<std::string, Position, std::less<>> positions;

 private:
  bool tolerates_idle_ = false;
  std::set<std::string, std::less<>> unsound_;
};

/// The problem with the file, line and column of its field, or of the nearest group around it.
Problem located(Problem problem, const std::map<std::string, Position, std::less<>>& positions);

}  // namespace pipeledger
