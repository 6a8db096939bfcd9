// The file formats of a written schedule.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schedules/schedule.h"

namespace pipeledger {

/// PyTorch's schedule CSV (torch.distributed.pipelining), a line a rank: 0F0,0I0,0W0,0B0 and
/// (0F7;7B3)OVERLAP_F_B; an empty cell is an idle slot. Communication (0SEND_F0, 1RECV_F0,
/// 0SEND_B0, 0RECV_B0, 0UNSHARD, 0RESHARD, 0REDUCE_GRAD) is read over: a run makes its own. Files
/// from before 2025 write B for an input gradient and BW for a whole backward; they have no I
/// beside their W. Throws InputError with line and column of every cell that is no action.
Schedule read_torch_csv(std::string_view text, std::string_view file);

/// Its compute-only form, without idle slots. Throws InputError for slices and for a stage on two
/// ranks, which PyTorch's schedules do not have.
std::string to_torch_csv(const Schedule& schedule);

/// The form with communication, as PyTorch lowers a compute-only schedule: the next three stages
/// are unsharded, gradients are reduced after a stage's last backward, and the rank that sends puts
/// the receive into the order of the other. Requires a schedule that validate finds nothing wrong
/// with. Throws as to_torch_csv does.
std::string to_torch_comms_csv(const Schedule& schedule);

/// pp_task_orders.json of Megatron-LM's VPP simulation (megatron/training/simulation): by pipeline
/// rank, tasks such as pp_0-mbs_3-model_chunk_1-task_type_forward. Throws InputError with rank and
/// place of every task that is none.
Schedule read_vppsim(std::string_view text, std::string_view file);

/// Throws InputError for what such a file cannot say: a split backward, overlapped pairs, slices,
/// and any placement but loop.
std::string to_vppsim(const Schedule& schedule);

/// A form in which a schedule is written.
struct ScheduleFormat {
  std::string_view name;
  std::string_view summary;
  /// Whether a text may be in this format. Null: a text is never taken for it.
  bool (*may_be)(std::string_view text) = nullptr;
  Schedule (*read)(std::string_view text, std::string_view file) = nullptr;
  std::string (*write)(const Schedule&) = nullptr;
};

/// In the order of schedules/CMakeLists.txt, whose list it is made from.
const std::vector<ScheduleFormat>& schedule_formats();

/// A schedule in any of the formats, which its text tells: the last of the registry that it may be
/// in, since our text, the first, may be anything. Throws InputError as the format's reader does.
Schedule read_schedule(std::string_view text, std::string_view file = {});

}  // namespace pipeledger
