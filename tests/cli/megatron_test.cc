// Megatron's launch in the place of a scenario.
#include <gmock/gmock.h>

#include "tests/cli/shell.h"

namespace pipeledger::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* kScript =
    "SIZE=(--num-layers 8 --hidden-size 512 --num-attention-heads 8)\n"
    "torchrun --nproc_per_node 8 --nnodes $NODES pretrain_gpt.py ${SIZE[@]} --bf16 \\\n"
    "  --seq-length 1024 --max-position-embeddings 1024 --vocab-size 50257 \\\n"
    "  --micro-batch-size 1 --global-batch-size 16 --pipeline-model-parallel-size 4 --lr 1e-4\n";

TEST(Megatron, AScriptRunsAsTheScenarioThatConvertMakesOfIt) {
  Workplace here;
  here.write("x.sh", kScript);
  const std::string launch = " --megatron-args x.sh --set-env NODES=1";
  ASSERT_EQ(here.run("pipeledger convert" + launch + " > x.yaml").status, 0);
  ASSERT_EQ(here.run("mkdir y;"
                     "pipeledger convert --format json x.yaml > y/x.json")
                .status,
            0);
  for (const std::string command : {"run --format json", "ledger", "schedule", "topology"}) {
    SCOPED_TRACE(command);
    const Outcome script = here.run("pipeledger " + command + launch);
    EXPECT_EQ(script.status, 0);
    EXPECT_EQ(script.out, here.run("pipeledger " + command + " x.yaml").out);
    EXPECT_EQ(script.out, here.run("pipeledger " + command + " y/x.json").out);
    EXPECT_THAT(script.err, HasSubstr("note: ignored, as it changes neither: --lr\n"));
  }
}

TEST(Megatron, FlagsBehindTheDashesWin) {
  Workplace here;
  here.write("x.sh", kScript);
  const std::string convert = "pipeledger convert --megatron-args x.sh --set-env NODES=2 -- ";
  EXPECT_THAT(here.run(convert + "--num-layers 4 --fp8-recipe delayed").out,
              HasSubstr("num_layers: 4\n"));
}

TEST(Megatron, AProblemPointsIntoTheScript) {
  Workplace here;
  here.write("x.sh", kScript);
  EXPECT_THAT(here.run("pipeledger ledger --megatron-args x.sh").err,
              HasSubstr("x.sh:2:38: cluster.nodes: depends on NODES, which nothing sets; add "
                        "--set-env NODES=value, or --set cluster.nodes=N"));
}

}  // namespace
}  // namespace pipeledger::testing
