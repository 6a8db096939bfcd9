// Every flag's disposition, and the handlers: what they declare, and that their order follows from
// it.
#include "launch/megatron_handlers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/internal_error.h"
#include "launch/megatron_args.h"
#include "launch/megatron_flags.h"
#include "launch/megatron_mapping.h"
#include "spec/schema.h"

namespace pipeledger {
namespace {

using Kind = Disposition::Kind;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<MegatronFlag> all_flags() {
  std::vector<MegatronFlag> flags;
  for (const auto table : {megatron_flags(), multimodal_flags(), former_megatron_flags()})
    flags.insert(flags.end(), table.begin(), table.end());
  return flags;
}

/// "model.num_layers" of every section, without what lies in a group.
std::set<std::string, std::less<>> schema_fields() {
  std::set<std::string, std::less<>> paths;
  for (const std::string section : {"model", "parallel", "train", "cluster", "sim"})
    for (const std::string& field : fields_of_section(section)) paths.insert(section + "." + field);
  return paths;
}

const FlagHandler* find_handler(std::string_view name) {
  for (const FlagHandler& handler : megatron_handlers())
    if (handler.name == name) return &handler;
  return nullptr;
}

std::vector<std::string> strings(std::string_view list) {
  std::vector<std::string> words;
  for (const std::string_view word : table_words(list)) words.emplace_back(word);
  return words;
}

// ---- the table of flags ----

TEST(Dispositions, EachNamesWhatItNeeds) {
  const auto fields = schema_fields();
  for (const MegatronFlag& flag : all_flags()) {
    SCOPED_TRACE(flag.name());
    const auto [kind, what] = flag.disposition;
    if (kind == Kind::field) {
      EXPECT_TRUE(fields.contains(what)) << what << " is no field of the schema";
    } else if (kind == Kind::handler || kind == Kind::hint) {
      EXPECT_NE(find_handler(what), nullptr) << what << " is no handler";
    } else {
      EXPECT_EQ(what.empty(), kind != Kind::refused);
    }
  }
}

TEST(Dispositions, AreTheSameForAllFlagsOfAnAttribute) {
  for (const MegatronFlag& flag : all_flags()) {
    SCOPED_TRACE(flag.name());
    EXPECT_EQ(flag.disposition.kind, disposition_of(flag.dest())->kind);
    EXPECT_EQ(flag.disposition.what, disposition_of(flag.dest())->what);
  }
}

/// A field that a scenario got under Megatron's name must not be ignored in its launches.
TEST(Dispositions, AFieldNamedLikeAFlagIsWrittenByIt) {
  for (const std::string section : {"model", "parallel", "train"}) {
    for (const std::string& field : fields_of_section(section)) {
      const MegatronFlag* flag = find_megatron_dest(field);
      if (flag == nullptr) continue;
      const std::string path = section + "." + field;
      const auto [kind, what] = flag->disposition;
      if (kind == Kind::field) {
        EXPECT_EQ(what, path);
      } else {
        const FlagHandler* handler = find_handler(what);
        EXPECT_TRUE(handler != nullptr && writes_field(*handler, path))
            << flag->name() << " does not write " << path;
      }
    }
  }
}

// ---- what handlers declare ----

TEST(FlagHandlers, AskFlagsAndWriteFieldsThatThereAre) {
  const auto fields = schema_fields();
  for (const FlagHandler& handler : megatron_handlers()) {
    SCOPED_TRACE(handler.name);
    EXPECT_EQ(find_handler(handler.name), &handler) << "two handlers have this name";
    for (const std::string& dest : strings(handler.asks))
      EXPECT_NE(disposition_of(dest), nullptr) << dest;
    for (const std::string_view paths : {handler.reads, handler.writes})
      for (const std::string& path : strings(paths)) EXPECT_TRUE(fields.contains(path)) << path;
  }
}

TEST(FlagHandlers, NoFieldIsWrittenByTwoWithoutAStatedPrecedence) {
  for (const std::string& path : schema_fields()) {
    SCOPED_TRACE(path);
    std::vector<std::string> writers = flags_of_field(path);
    const std::size_t num_flags = writers.size();
    for (const FlagHandler& handler : megatron_handlers())
      if (handler.run != map_fields && writes_field(handler, path))
        writers.emplace_back(handler.name);
    std::vector<std::string> stated;
    for (const FieldPrecedence& precedence : field_precedences())
      if (precedence.field == path) stated = strings(precedence.writers);
    if (writers.size() < 2) {
      EXPECT_THAT(stated, testing::IsEmpty());
    } else {
      EXPECT_THAT(stated, testing::UnorderedElementsAreArray(writers));
      stated.resize(num_flags);
      writers.resize(num_flags);
      EXPECT_EQ(stated, writers) << "flags that are the field, its own name first";
    }
  }
}

TEST(FlagHandlers, RunBehindThoseWhoseFieldsTheyRead) {
  const std::vector<const FlagHandler*> order = in_order(megatron_handlers());
  ASSERT_EQ(order.size(), megatron_handlers().size());
  for (std::size_t later = 0; later < order.size(); ++later)
    for (std::size_t earlier = 0; earlier < later; ++earlier)
      for (const std::string& path : strings(order[earlier]->reads))
        EXPECT_FALSE(writes_field(*order[later], path))
            << order[earlier]->name << " reads " << path << " before " << order[later]->name;
}

TEST(FlagHandlers, RunBehindWeakerWriters) {
  const std::vector<const FlagHandler*> order = in_order(megatron_handlers());
  const auto place = [&](const std::string& name) {
    const bool is_handler = find_handler(name) != nullptr;
    const std::string_view ran = is_handler ? std::string_view(name) : "fields";
    return std::find_if(order.begin(), order.end(),
                        [&](const FlagHandler* handler) { return handler->name == ran; });
  };
  for (const FieldPrecedence& precedence : field_precedences()) {
    SCOPED_TRACE(precedence.field);
    const std::vector<std::string> writers = strings(precedence.writers);
    for (std::size_t i = flags_of_field(precedence.field).size(); i-- > 1;)
      EXPECT_EQ(find_handler(writers[i]), nullptr);
    for (std::size_t i = std::max<std::size_t>(flags_of_field(precedence.field).size(), 1);
         i < writers.size(); ++i)
      EXPECT_LT(place(writers[i - 1]), place(writers[i])) << writers[i];
  }
}

void do_nothing(MegatronDocument&) {}

TEST(FlagHandlers, ThatWaitForEachOtherAreABug) {
  const FlagHandler circle[] = {{"a", do_nothing, "", "model.num_layers", "model.hidden_size"},
                                {"b", do_nothing, "", "model.hidden_size", "model.num_layers"}};
  EXPECT_THAT([&] { in_order(circle); },
              ThrowsMessage<InternalError>(HasSubstr("2 handlers wait for each other")));
}

// ---- what they do ----

MegatronCommand command_of(const std::string& flags) {
  std::vector<std::string> words;
  for (const std::string_view word : table_words(flags)) words.emplace_back(word);
  return read_megatron_flags(words, {});
}

void ask_bf16(MegatronDocument& document) { document.is_on("bf16"); }
void write_layers(MegatronDocument& document) {
  document.set("model.num_layers", "1", document.where());
}
void read_layers(MegatronDocument& document) { document.has("model.num_layers"); }

TEST(FlagHandlers, ThatDoWhatTheyDoNotDeclareAreABug) {
  const std::vector<MegatronCommand> commands = {command_of("--bf16")};
  const auto run = [&](void (*body)(MegatronDocument&), std::string_view asks,
                       std::string_view reads, std::string_view writes) {
    const FlagHandler handler{"rogue", body, asks, reads, writes};
    map_megatron(commands, {}, {&handler});
  };
  run(ask_bf16, "bf16", "", "");
  run(write_layers, "", "", "model.num_layers");
  run(read_layers, "", "model.num_layers", "");
  EXPECT_THAT([&] { run(ask_bf16, "fp16", "", ""); },
              ThrowsMessage<InternalError>(HasSubstr("rogue asks bf16")));
  EXPECT_THAT([&] { run(write_layers, "", "model.num_layers", ""); },
              ThrowsMessage<InternalError>(HasSubstr("rogue writes model.num_layers")));
  EXPECT_THAT([&] { run(read_layers, "", "model.hidden_size", ""); },
              ThrowsMessage<InternalError>(HasSubstr("rogue reads model.num_layers")));
}

/// Each field with its value and place, in the order of their names.
void flatten(const Node& node, const std::string& path, std::vector<std::string>& lines) {
  if (node.kind != Node::Kind::group) {
    std::string line = path + " = " + node.text;
    for (const Node& item : node.items) line += " " + item.text;
    lines.push_back(line + " at " + to_text(problem_at(node.position, "", "")));
  }
  for (const Member& member : node.members) flatten(member.value, path + "/" + member.key, lines);
}

std::vector<std::string> lines_of(const MappedScenario& mapped) {
  std::vector<std::string> lines = mapped.notes;
  for (const Problem& problem : mapped.problems) lines.push_back(to_text(problem));
  flatten(mapped.root, "", lines);
  std::sort(lines.begin(), lines.end());
  return lines;
}

std::vector<MegatronCommand> launches() {
  std::vector<MegatronCommand> commands;
  for (const auto& entry :
       std::filesystem::directory_iterator(PIPELEDGER_SOURCE_DIR "/tests/data/launch/scripts")) {
    const std::string file = entry.path().string(), ending = entry.path().extension();
    const MegatronReading reading{.ignores_unknown = true};
    if (ending == ".yaml")
      commands.push_back(read_megatron_yaml(read_file(entry.path()), file, reading));
    if (ending == ".sh" || ending == ".txt")
      commands.push_back(read_megatron_script(read_file(entry.path()), file, reading));
  }
  const std::string sound =
      "--num-layers 8 --hidden-size 512 --num-attention-heads 8 --seq-length 1024 "
      "--micro-batch-size 2 ";
  for (const char* more :
       {"--quick-geglu", "--checkpoint-activations --moe-layer-recompute", "--zero-stage 1 --bf16",
        "--zero-stage 3 --use-megatron-fsdp",
        "--ds-sequence-parallel-size 4 --cp-comm-type allgather",
        "--num-experts 8 --mlp-type residual", "--window-size 127,0 --window-attn-skip-freq 2",
        "--pad-vocab-size-to 1024 --pp-partition-method type:transformer|embedding",
        "--encoder-num-layers 4 --encoder-seq-length 64", "--deepspeed --normalization rmsnorm"})
    commands.push_back(command_of(sound + more));
  return commands;
}

/// If a handler depended on another without declaring so, another order among those that are free
/// would show it.
TEST(FlagHandlers, MayStandInAnyOrderInTheirTable) {
  std::vector<FlagHandler> handlers(megatron_handlers().begin(), megatron_handlers().end());
  const std::vector<const FlagHandler*> usual = in_order(megatron_handlers());
  std::reverse(handlers.begin(), handlers.end());
  const std::vector<const FlagHandler*> other = in_order(handlers);
  EXPECT_EQ(usual.front()->name, "spec");
  EXPECT_NE(other.front()->name, "spec");
  const std::vector<MegatronCommand> commands = launches();
  EXPECT_GE(commands.size(), 20u);
  for (const MegatronCommand& command : commands) {
    SCOPED_TRACE(command.position.file + " " +
                 (command.uses.empty() ? "" : command.uses.back().name));
    EXPECT_EQ(lines_of(map_megatron({command}, {}, usual)),
              lines_of(map_megatron({command}, {}, other)));
  }
}

TEST(FlagHandlers, OfTwoFlagsThatAreOneFieldTheStatedOneWins) {
  const auto value = [](const MappedScenario& mapped, const std::string& path) {
    std::vector<std::string> lines;
    flatten(mapped.root, "", lines);
    for (const std::string& line : lines)
      if (line.starts_with(path + " = "))
        return line.substr(path.size() + 3, line.find(" at ") - path.size() - 3);
    return std::string();
  };
  for (const std::string flags :
       {"--num-layers 8 --encoder-num-layers 4 --seq-length 32 --encoder-seq-length 16",
        "--encoder-num-layers 4 --num-layers 8 --encoder-seq-length 16 --seq-length 32"}) {
    const MappedScenario mapped = map_megatron({command_of(flags)}, {});
    EXPECT_EQ(value(mapped, "/model/num_layers"), "4");
    EXPECT_EQ(value(mapped, "/train/seq_length"), "16");
  }
}

}  // namespace
}  // namespace pipeledger
