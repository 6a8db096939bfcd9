// What fields a scenario has.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pipeledger {

/// The fields of "model", "parallel" and so on, in the order of the schema. Requires a section that
/// is there.
std::vector<std::string> fields_of_section(std::string_view section);

/// The largest value that the schema allows the number at `path`, "model.num_layers". Requires a
/// field with a range.
double largest_allowed(std::string_view path);

}  // namespace pipeledger
