// The generators of the registry beside gpipe, 1f1b and interleaved. Each make requires a shape in
// which its check finds nothing wrong. Bubbles and peaks are laws in tests/schedules;
// docs/schedules.md has them in one table.
#pragma once

#include <vector>

#include "schedules/schedule.h"

namespace pipeledger {

/// 1F1B with twice the warmup (a building block of Qi et al. 2024, controllable memory): rank r of
/// p runs min(2(p - 1 - r), m) forwards first, so that a message has an op's time to travel. Peak
/// in flight: min(2(p - r) - 1, m).
std::vector<Problem> check_eager_one_f_one_b(const ScheduleShape& shape);
Schedule eager_one_f_one_b(const ScheduleShape& shape);

/// Breadth-first pipeline (Lamy-Poirier 2023) in the order of PyTorch's ScheduleLoopedBFS: all
/// microbatches through chunk 0, then chunk 1, and so on; then backward through the chunks, the
/// microbatches from last to first. Peak: vm on every rank.
std::vector<Problem> check_looped_bfs(const ScheduleShape& shape);
Schedule looped_bfs(const ScheduleShape& shape);

/// PyTorch's ScheduleInterleaved1F1B: the order of interleaved, in max(1, m / p) groups of equal
/// size, so that m may be less than p, and is a multiple of the number of groups instead of p.
std::vector<Problem> check_torch_interleaved(const ScheduleShape& shape);
Schedule torch_interleaved(const ScheduleShape& shape);

/// Interleaved with one warmup forward a rank below instead of two (MindSpore SAPP's vpp2):
/// rank r runs (v - 1)g + p - 1 - r of them. Peak: (v - 1)g + p - r, for g = p that is vp - r; same
/// makespan as interleaved as long as messages take no time.
std::vector<Problem> check_low_memory_interleaved(const ScheduleShape& shape);
Schedule low_memory_interleaved(const ScheduleShape& shape);

/// Grouped interleaved (Wan et al. 2025, PipeOffload; zero-bubble repository,
/// group_interleaved_1f1b): groups of g in ceil(p / 2)..p, warmup (v - 1)g + p - 1 - r, each I
/// followed by its W. What a last group lacks is left out of the order of a whole one. Peak: (v -
/// 1)g + p - r.
std::vector<Problem> check_grouped_interleaved(const ScheduleShape& shape);
Schedule grouped_interleaved(const ScheduleShape& shape);

/// PipeOffload (Wan et al. 2025): the compute order of grouped interleaved. Its copies to the host
/// are no ops; who books memory decides what is away between a forward and its backward.
/// Legal: an even p, since two ranks share a link to the host.
std::vector<Problem> check_pipe_offload(const ScheduleShape& shape);
Schedule pipe_offload(const ScheduleShape& shape);

/// Megatron's interleaved schedule with overlap_moe_expert_parallel_comm (combined_1f1b.py): one
/// more warmup forward, and each steady forward and backward are an overlapped pair. One rank:
/// F0, then pairs, at most two microbatches in flight.
std::vector<Problem> check_combined_one_f_one_b(const ScheduleShape& shape);
Schedule combined_one_f_one_b(const ScheduleShape& shape);

/// Seq1F1B (Sun et al. 2024): 1F1B over slices of each microbatch's sequence, q = num_slices of
/// them, backward from the last; warmup min(p - 2 - r + q, mq). Peak: min(p - 1 - r + q, mq)
/// slices.
std::vector<Problem> check_seq1f1b(const ScheduleShape& shape);
Schedule seq1f1b(const ScheduleShape& shape);

/// Chimera with two pipelines (Li and Hoefler 2021): even microbatches go down, odd ones up, in
/// units of p. Peak: p/2 + 1 + min(r, p - 1 - r). Legal: p even, m a multiple of p.
std::vector<Problem> check_chimera(const ScheduleShape& shape);
Schedule chimera(const ScheduleShape& shape);

/// DualPipe (DeepSeek-V3 2024; deepseek-ai/DualPipe): the first half of the microbatches goes down,
/// the second up; forward-backward pairs overlap. Peak: p + 1. Legal: p and m even, m >= 2p.
std::vector<Problem> check_dualpipe(const ScheduleShape& shape);
Schedule dualpipe(const ScheduleShape& shape);

/// DualPipeV, one direction of DualPipe folded into a V (DeepSeek 2025; also PyTorch's
/// ScheduleDualPipeV). Peak: 2p + 1 chunks. Legal: two chunks, m >= 2p.
std::vector<Problem> check_dualpipev(const ScheduleShape& shape);
Schedule dualpipev(const ScheduleShape& shape);

/// Hanayo (Liu et al. 2023): W = v/2 waves over the ranks, in units of p microbatches. With slots
/// as long as an op, microbatch j of a unit passes stage s of S in slot s + 2j and comes back in
/// slot 2S - 1 - s + 2j; a unit begins every 2S slots. The paper's code is not public: this is the
/// one order in which no two ops want the same slot. Peak: (v - 1)p + r + 1. Legal: v even.
std::vector<Problem> check_hanayo(const ScheduleShape& shape);
Schedule hanayo(const ScheduleShape& shape);

}  // namespace pipeledger
