// The files of presets/: each is built in under its name, says what its message can say, and says
// where its figures come from.
#include <gmock/gmock.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "spec/load.h"
#include "spec/preset.h"
#include "spec/scenario.h"
#include "spec/scenario.pb.h"

namespace pipeledger {
namespace {

using testing::ElementsAreArray;
using testing::IsEmpty;

struct Kind {
  std::string folder;
  std::span<const Preset> presets;
  std::function<std::unique_ptr<google::protobuf::Message>()> message;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"models", model_presets(), [] { return std::make_unique<proto::Model>(); }},
      {"gpus", gpu_presets(), [] { return std::make_unique<proto::Gpu>(); }},
      {"clusters", cluster_presets(), [] { return std::make_unique<proto::Cluster>(); }},
      {"nccl", nccl_presets(), [] { return std::make_unique<proto::Nccl>(); }},
  };
  return all;
}

/// The paragraphs of fields without a comment of at least three words above them, by their first
/// line.
std::vector<std::string> paragraphs_without_source(std::string_view text) {
  std::vector<std::string> bare;
  bool is_sourced = false, is_new = true;
  std::size_t num_words = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.empty()) {
      is_sourced = false;
      is_new = true;
      num_words = 0;
    } else if (line.front() == '#') {
      num_words += static_cast<std::size_t>(std::count(line.begin(), line.end(), ' '));
      is_sourced = num_words >= 3;
    } else {
      if (is_new && !is_sourced) bare.emplace_back(line);
      is_new = false;
    }
  }
  return bare;
}

TEST(Presets, EachIsAFileOfItsNameAndEachFileIsOne) {
  for (const Kind& kind : kinds()) {
    std::vector<std::string> files, names;
    const std::filesystem::path folder =
        std::filesystem::path(PIPELEDGER_SOURCE_DIR) / "presets" / kind.folder;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      EXPECT_EQ(entry.path().extension(), ".textproto") << entry.path();
      files.push_back(entry.path().stem());
    }
    std::sort(files.begin(), files.end());
    for (const Preset& preset : kind.presets) {
      names.emplace_back(preset.name);
      EXPECT_EQ(preset.fields, read_file(folder / (names.back() + ".textproto"))) << preset.name;
    }
    EXPECT_THAT(names, ElementsAreArray(files));
  }
}

TEST(Presets, EachSaysWhatItsMessageCanSay) {
  for (const Kind& kind : kinds()) {
    EXPECT_GT(kind.presets.size(), 0u);
    for (const Preset& preset : kind.presets) {
      const auto message = kind.message();
      EXPECT_TRUE(apply_preset(kind.presets, preset.name, *message)) << preset.name;
      EXPECT_GT(message->ByteSizeLong(), 0u) << preset.name;
    }
  }
}

TEST(Presets, EachFigureHasASource) {
  for (const Kind& kind : kinds()) {
    for (const Preset& preset : kind.presets) {
      EXPECT_THAT(paragraphs_without_source(preset.fields), IsEmpty()) << preset.name;
    }
  }
  EXPECT_THAT(paragraphs_without_source(
                  "# a data sheet, page 3\na: 1\nb: 2\n\nc: 3\nd: 4\n\n# sic\ne: 5\n"),
              testing::ElementsAre("c: 3", "e: 5"));
}

TEST(Presets, EachGpuAndClusterIsWhole) {
  const std::string rest =
      "\nmodel: {preset: llama3-8b}\ntrain: {global_batch_size: 128, seq_length: 128}\n";
  for (const Preset& preset : cluster_presets()) {
    const std::string text = "cluster: {preset: " + std::string(preset.name) + "}";
    EXPECT_NO_THROW(parse_scenario(text + rest, "yaml", "x.yaml")) << preset.name;
  }
  for (const Preset& preset : gpu_presets()) {
    const std::string text =
        "cluster: {preset: dgx-h100, gpu: {preset: " + std::string(preset.name) + "}}";
    EXPECT_NO_THROW(parse_scenario(text + rest, "yaml", "x.yaml")) << preset.name;
  }
}

}  // namespace
}  // namespace pipeledger
