// Flags that are a field of the scenario.
#include <algorithm>
#include <string>
#include <vector>

#include "launch/megatron_flags.h"
#include "launch/megatron_handlers.h"
#include "spec/schema.h"

namespace pipeledger {
namespace {

struct FieldFlag {
  std::string dest, path;
};

/// Fields under Megatron's own name in the schema's order, behind them those with another name in
/// the table's.
std::vector<FieldFlag> field_flags() {
  std::vector<FieldFlag> flags, renamed;
  for (const char* section : {"model", "parallel", "train"}) {
    for (const std::string& field : fields_of_section(section)) {
      const std::string path = std::string(section) + "." + field;
      const std::vector<std::string> dests = flags_of_field(path);
      if (std::find(dests.begin(), dests.end(), field) != dests.end())
        flags.push_back({field, path});
    }
  }
  for (const MegatronFlag& flag : megatron_flags()) {
    const std::string dest = flag.dest();
    const std::string_view path = flag.disposition.what;
    if (flag.disposition.kind == Disposition::Kind::field && !path.ends_with("." + dest))
      renamed.push_back({dest, std::string(path)});
  }
  flags.insert(flags.end(), renamed.begin(), renamed.end());
  return flags;
}

}  // namespace

void map_fields(MegatronDocument& document) {
  static const std::vector<FieldFlag> kFlags = field_flags();
  for (const FieldFlag& flag : kFlags) document.set_from(flag.dest, flag.path);
}

}  // namespace pipeledger
