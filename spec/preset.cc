#include "spec/preset.h"

#include <fmt/format.h>
#include <google/protobuf/text_format.h>

#include "base/check.h"
#include "base/text.h"
#include "spec/fields.h"

namespace pipeledger {

bool apply_preset(std::span<const Preset> presets, std::string_view name,
                  google::protobuf::Message& message) {
  for (const Preset& preset : presets) {
    if (preset.name != name) continue;
    const bool is_read =
        google::protobuf::TextFormat::ParseFromString(std::string(preset.fields), &message);
    PIPELEDGER_CHECK(is_read, "preset={}", name);
    return true;
  }
  return false;
}

std::string unknown_preset(std::span<const Preset> presets, std::string_view name) {
  std::vector<std::string> names;
  for (const Preset& preset : presets) names.emplace_back(preset.name);
  return fmt::format("{} is not known{}{} one of: {}", in_quotes(name), did_you_mean(name, names),
                     did_you_mean(name, names).empty() ? ";" : "", join(names));
}

}  // namespace pipeledger
