#include "pipeledger/scenario.h"

#include <fmt/format.h>

#include <utility>

#include "launch/hf_config.h"
#include "spec/load.h"

namespace pipeledger {

ScenarioSource::ScenarioSource(std::string name) : origin_(std::move(name)) {}

ScenarioSource ScenarioSource::from_file(std::filesystem::path path) {
  return ScenarioSource(Origin(std::move(path)));
}

ScenarioSource ScenarioSource::from_text(std::string text, std::string format,
                                         std::filesystem::path path) {
  return ScenarioSource(Origin(Text{std::move(text), std::move(format), std::move(path)}));
}

ScenarioSource ScenarioSource::from_launch(MegatronInput launch) {
  return ScenarioSource(Origin(std::move(launch)));
}

ScenarioSource& ScenarioSource::set(std::string field, std::string value) {
  // A launch's own flags may do nothing, what is set on top may not: the loader knows it by its place.
  const bool is_launch = std::holds_alternative<MegatronInput>(origin_);
  fields_.push_back({std::move(field), std::move(value), std::string(is_launch ? kSetFlag : "")});
  return *this;
}

ScenarioSource& ScenarioSource::set(std::string field, std::string_view value) {
  return set(std::move(field), std::string(value));
}

ScenarioSource& ScenarioSource::set(std::string field, const char* value) {
  return set(std::move(field), std::string(value));
}

ScenarioSource& ScenarioSource::set(std::string field, bool value) {
  return set(std::move(field), std::string(value ? "true" : "false"));
}

ScenarioSource& ScenarioSource::set(std::string field, std::int64_t value) {
  return set(std::move(field), std::to_string(value));
}

ScenarioSource& ScenarioSource::set(std::string field, double value) {
  // The shortest text that reads back as this number.
  return set(std::move(field), fmt::format("{}", value));
}

ScenarioSource& ScenarioSource::set(const std::vector<Override>& fields) {
  fields_.insert(fields_.end(), fields.begin(), fields.end());
  return *this;
}

LoadedScenario ScenarioSource::load_with_text() const {
  struct Load {
    const std::vector<Override>& fields;

    LoadedScenario operator()(const std::string& name) const {
      return load_fields(name, fields, read_hf_config);
    }
    LoadedScenario operator()(const std::filesystem::path& path) const {
      return load_file(path, fields);
    }
    LoadedScenario operator()(const Text& text) const {
      return parse_with_text(text.text, text.format, text.path, fields, read_hf_config);
    }
    LoadedScenario operator()(const MegatronInput& launch) const {
      return load_megatron(launch, fields);
    }
  };
  return std::visit(Load{fields_}, origin_);
}

}  // namespace pipeledger
