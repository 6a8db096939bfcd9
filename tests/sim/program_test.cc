#include "sim/program.h"

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "schedules/schedule.h"

namespace pipeledger {
namespace {

TEST(IdealProgram, AnOpWaitsForItsInputAndSendsFreely) {
  const Schedule schedule = make_schedule("1f1b", {.num_ranks = 2, .num_microbatches = 1});
  const std::vector<Program> programs = ideal_programs(schedule);
  EXPECT_EQ(to_text(programs[0], schedule),
            "enter_no_sync\n"
            "first_microbatch 0\n"
            "F 0.0\n"
            "post send_next=A0@0\n"
            "post recv_next=G0@1\n"
            "wait recv_next\n"
            "B 0.0\n"
            "exit_no_sync\n"
            "finalize_model_grads\n");
}

/// Megatron's recording does not know what an asynchronous receive will bring, nor what its
/// variables hold, and with pairs no first microbatch. Its stand-in for a pair runs F, waits for
/// the gradient and runs B; Megatron, and we, wait for both before the layers begin.
std::string as_recorded(const Program& program, const Schedule& schedule) {
  static const std::regex kPostedReceive("(recv_\\w+)=\\S+");
  std::istringstream lines(to_text(program, schedule));
  std::string text, line;
  const bool has_pairs = schedule.name == "combined-1f1b";
  while (std::getline(lines, line)) {
    if (has_pairs && line.rfind("first_microbatch", 0) == 0) continue;
    if (line.starts_with("keep") || line.starts_with("drop")) continue;
    text += line.rfind("post", 0) == 0 ? std::regex_replace(line, kPostedReceive, "$1") : line;
    text += '\n';
  }
  static const std::regex kPairsWait("(wait recv_next\n)(F [^\n]*\n)");
  return has_pairs ? std::regex_replace(text, kPairsWait, "$2$1") : text;
}

/// Rank 1 of two: the graph of microbatch 0 holds its input until forward 1 has returned.
TEST(MegatronProgram, AnInputOutlivesItsBackwardUntilTheNextForwardIsOver) {
  const Schedule schedule = make_schedule("1f1b", {.num_ranks = 2, .num_microbatches = 2});
  const std::vector<Program> programs = megatron_programs(schedule, 0, {});
  EXPECT_EQ(to_text(programs[1], schedule),
            "enter_no_sync\n"
            "communicate recv_prev=A0@0\n"
            "first_microbatch 0\n"
            "F 0.0\n"
            "free A0@1\n"
            "B 0.0\n"
            "keep A0@0\n"
            "communicate recv_prev=A1@0 send_prev=G0@1\n"
            "F 1.0\n"
            "drop A0@0\n"
            "free A1@1\n"
            "exit_no_sync\n"
            "B 1.0\n"
            "keep A1@0\n"
            "communicate send_prev=G1@1\n"
            "drop A1@0\n"
            "finalize_model_grads\n");
}

TEST(MegatronProgram, CallOrderEqualsEveryRecordedStep) {
  std::ifstream records(PIPELEDGER_SOURCE_DIR "/tests/data/sim/schedule_p2p_trace.jsonl");
  int num_records = 0;
  for (std::string line; std::getline(records, line); ++num_records) {
    const nlohmann::json record = nlohmann::json::parse(line);
    const nlohmann::json& args = record["args"];
    SCOPED_TRACE(args.dump());
    const int num_ranks = args["p"], num_chunks = args["v"];
    const int group = args["microbatch_group_size_per_vp_stage"];
    const bool has_pairs = args.contains("overlap_moe_expert_parallel_comm");
    const Schedule schedule =
        make_schedule(has_pairs        ? "combined-1f1b"
                      : num_chunks > 1 ? "interleaved"
                                       : "1f1b",
                      {num_ranks, num_chunks, args["m"], num_chunks > 1 ? group : 0});
    const std::vector<Program> programs = megatron_programs(
        schedule, group,
        {.overlap_p2p_communication = args["overlap_p2p_comm"],
         .overlap_p2p_communication_warmup_flush = args["overlap_p2p_comm_warmup_flush"],
         .deallocate_pipeline_outputs = args["deallocate_pipeline_outputs"],
         .aligned_grad_sync = args["grad_sync"] == "custom",
         .aligned_param_sync = args["param_sync"]});
    for (int rank = 0; rank < num_ranks; ++rank) {
      SCOPED_TRACE(testing::Message() << "rank " << rank);
      std::string expected;
      for (const std::string event : record["ranks"][rank]) expected += event + "\n";
      ASSERT_EQ(as_recorded(programs[rank], schedule), expected);
    }
  }
  EXPECT_EQ(num_records, 38);
}

}  // namespace
}  // namespace pipeledger
