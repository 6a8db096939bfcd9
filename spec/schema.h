// What fields a scenario has.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pipeledger {

/// The fields of "model", "parallel" and so on, in the order of the schema. Requires a section that
/// is there.
std::vector<std::string> fields_of_section(std::string_view section);

}  // namespace pipeledger
