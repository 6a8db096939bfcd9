// The format `vppsim`: task orders as VppSim writes them in JSON.
#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "schedules/formats.h"
#include "schedules/tokens.h"

namespace pipeledger {
namespace {

using nlohmann::json;

constexpr std::string_view kRemedy =
    "write by pipeline rank the tasks in order: "
    "{\"0\": [\"pp_0-mbs_0-model_chunk_0-task_type_forward\"]}";

[[noreturn]] void refuse(std::string_view file, std::string message) {
  throw InputError({{.message = std::move(message), .file = std::string(file)}});
}

bool drop(std::string_view& rest, std::string_view front) {
  if (!rest.starts_with(front)) return false;
  rest.remove_prefix(front.size());
  return true;
}

/// The op of "pp_0-mbs_3-model_chunk_1-task_type_forward" on its rank.
std::optional<Op> parse_task(std::string_view task, Rank rank, int num_ranks,
                             std::string& message) {
  std::string_view rest = task;
  std::optional<int> on, microbatch, chunk;
  const bool is_task = drop(rest, "pp_") && (on = take_number(rest)) && drop(rest, "-mbs_") &&
                       (microbatch = take_number(rest)) && drop(rest, "-model_chunk_") &&
                       (chunk = take_number(rest)) && drop(rest, "-task_type_") &&
                       (rest == "forward" || rest == "backward");
  if (!is_task) {
    message = fmt::format("{} is not a task; write pp_{}-mbs_0-model_chunk_0-task_type_forward",
                          shown(task), rank.value);
    return std::nullopt;
  }
  if (*on != rank.value) {
    message = fmt::format("{} is a task of rank {}", shown(task), *on);
    return std::nullopt;
  }
  const std::int64_t stage = std::int64_t{*chunk} * num_ranks + rank.value;
  if (std::max<std::int64_t>(stage, *microbatch) >= kMaxOps) {
    message = fmt::format("{} is out of range; stages and microbatches end at {}", shown(task),
                          kMaxOps - 1);
    return std::nullopt;
  }
  return Op{{static_cast<int>(stage)}, rest == "forward" ? OpKind::F : OpKind::B, {*microbatch}};
}

void check_vppsim_has(const Schedule& schedule) {
  const auto refuse_format = [&](std::string_view what) {
    throw InputError({{.field = "--format",
                       .message = fmt::format("vppsim has no {}, as {} has; take text or json",
                                              what, schedule.name)}});
  };
  if (schedule.placement != Placement::loop) refuse_format("placement but loop");
  if (schedule.num_slices > 1) refuse_format("slices");
  for (const std::vector<Op>& ops : schedule.ops) {
    for (const Op& op : ops) {
      if (op.kind == OpKind::I || op.kind == OpKind::W) refuse_format("split backward");
      if (op.overlaps_next) refuse_format("overlapped pairs");
    }
  }
}

}  // namespace

Schedule read_vppsim(std::string_view text, std::string_view file) {
  json all;
  try {
    all = json::parse(text);
  } catch (const json::parse_error& error) {
    refuse(file, fmt::format("is not JSON, at byte {}; {}", error.byte, kRemedy));
  } catch (const json::exception&) {  // a number that no double holds
    refuse(file, fmt::format("is not JSON that a schedule is written in; {}", kRemedy));
  }
  if (!all.is_object() || all.empty()) refuse(file, fmt::format("holds no ranks; {}", kRemedy));
  OpsReader reader(file);
  const int num_ranks = static_cast<int>(all.size());
  for (Rank rank{0}; rank.value < num_ranks; ++rank.value) {
    const auto tasks = all.find(std::to_string(rank.value));
    if (tasks == all.end() || !tasks->is_array()) {
      refuse(file, fmt::format("has no list of tasks for rank {}, one of {}; {}", rank.value,
                               num_ranks, kRemedy));
    }
    reader.add_rank();
    for (std::size_t at = 0; at < tasks->size(); ++at) {
      const json& task = (*tasks)[at];
      std::string message;
      const std::optional<Op> op =
          parse_task(task.is_string() ? task.get_ref<const std::string&>()
                                      : task.dump(-1, ' ', false, json::error_handler_t::replace),
                     rank, num_ranks, message);
      if (op) {
        reader.add(*op);
      } else {
        reader.add(Problem{.field = fmt::format("rank {}, task {}", rank.value, at),
                           .message = std::move(message),
                           .file = std::string(file)});
      }
    }
  }
  return std::move(reader).take(kRemedy);
}

std::string to_vppsim(const Schedule& schedule) {
  check_vppsim_has(schedule);
  std::string text = "{";
  for (Rank rank{0}; rank.value < schedule.num_ranks; ++rank.value) {
    text += fmt::format("{}\n  \"{}\": [", rank.value == 0 ? "" : ",", rank.value);
    const std::vector<Op>& ops = schedule.ops[rank.index()];
    for (std::size_t at = 0; at < ops.size(); ++at) {
      fmt::format_to(std::back_inserter(text),
                     "{}\n    \"pp_{}-mbs_{}-model_chunk_{}-task_type_{}\"", at == 0 ? "" : ",",
                     rank.value, ops[at].microbatch.value, schedule.chunk_of(ops[at]).value,
                     ops[at].kind == OpKind::F ? "forward" : "backward");
    }
    text += "\n  ]";
  }
  return text + "\n}\n";
}

ScheduleFormat vppsim() {
  return {.name = "vppsim",
          .summary = "Megatron-LM's VPP simulation",
          .may_be =
              [](std::string_view text) {
                const std::size_t first = text.find_first_not_of(" \t\r\n");
                return first != std::string_view::npos && text[first] == '{';
              },
          .read = read_vppsim,
          .write = to_vppsim};
}

}  // namespace pipeledger
