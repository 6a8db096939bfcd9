// Whatever bytes a launch script, a line of flags or a YAML of Megatron's holds, reading ends with
// fields or an InputError that says something. The first byte chooses the reader.
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>

#include "base/problem.h"
#include "launch/megatron_mapping.h"
#include "spec/scenario.h"

namespace pipeledger {
namespace {

MegatronCommand command_of(char reader, std::string_view text) {
  const MegatronReading reading{.environment = {{"GIVEN", "8"}}, .ignores_unknown = reader < 0};
  if (reader % 3 == 0) return read_megatron_script(text, "fuzz.sh", reading);
  if (reader % 3 == 1) return read_megatron_yaml(text, "fuzz.yaml", reading);
  std::istringstream in{std::string(text)};
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return read_megatron_flags(words, reading);
}

void read(char reader, std::string_view text) {
  const MappedScenario mapped = map_megatron({command_of(reader, text)}, {});
  // What is printed is YAML.
  if (!mapped.root.members.empty()) read_yaml(to_yaml(mapped.root), "printed.yaml");
  read_json(to_json(mapped.root), "printed.json");
}

}  // namespace
}  // namespace pipeledger

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const char* bytes = reinterpret_cast<const char*>(data);
  try {
    pipeledger::read(bytes[0], {bytes + 1, size - 1});
  } catch (const pipeledger::InputError& error) {
    if (error.problems().empty()) std::abort();
  }
  return 0;
}
