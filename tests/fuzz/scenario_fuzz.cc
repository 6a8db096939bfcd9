// Whatever bytes a scenario or a config.json holds, reading ends with a value or an InputError that
// says something. The first byte chooses the reader.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/problem.h"
#include "launch/hf_config.h"
#include "spec/load.h"
#include "spec/scenario.h"

namespace pipeledger {
namespace {

void read(char reader, std::string_view text) {
  switch (reader % 5) {
    case 0:
      parse_scenario(text, "yaml", "fuzz.yaml");
      break;
    case 1:
      parse_scenario(text, "json", "fuzz.json");
      break;
    case 2:
      parse_scenario(text, "textproto", "fuzz.textproto");
      break;
    case 3:
      read_hf_config(text, "config.json");
      break;
    default: {
      // "path=value" onto a sound scenario.
      const std::size_t equals = text.find('=');
      if (equals == std::string_view::npos) return;
      parse_scenario(
          "model: {preset: llama3-8b}\ntrain: {global_batch_size: 8, seq_length: 4096}\n"
          "cluster: {preset: dgx-h100}\n",
          "yaml", "fuzz.yaml",
          {{std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))}});
    }
  }
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
