// Schedules that split the backward into input and weight gradients.
#pragma once

#include "schedules/schedule.h"

namespace pipeledger {

/// ZB-H1 as the zero-bubble authors patched it into Megatron (branch zb-h1-quick-start): 1F1B in
/// which rank r's weight gradients lag r microbatches behind.
///
/// Only the first r backwards, the last steady one and those of the cooldown are split; where a W
/// would follow its I at once, the backward stays whole. Each rank holds min(m, p) microbatches
/// until W, min(m, p - r) until I.
std::vector<Problem> check_zb_h1(const ScheduleShape& shape);
Schedule zb_h1(const ScheduleShape& shape);

/// ZB-H2 (Qi et al. 2023), for which no code was published: 2(p - 1 - r) warmup forwards, so that
/// no rank waits for its first I, and weight gradients that lag 2r microbatches behind.
/// Rank r holds min(m, 2(p - r) - 1) microbatches until I, and min(m, 2p - 1) until W.
std::vector<Problem> check_zb_h2(const ScheduleShape& shape);
Schedule zb_h2(const ScheduleShape& shape);

/// PyTorch's InterleavedZeroBubble: the interleaved order with I for B, one warmup forward a hop
/// instead of two, and weight gradients that lag r turns behind. Each rank holds v*p pairs.
/// With one chunk it is ZB-H1 with every backward split.
///
/// Legal: m a multiple of its number of groups, max(1, floor(m / p)).
std::vector<Problem> check_interleaved_zb(const ScheduleShape& shape);
Schedule interleaved_zb(const ScheduleShape& shape);

/// The automatic schedule of the zero-bubble repository (zb.py) for a memory limit of p and of 2p
/// microbatches, and for the costs' own limit: eight settings of a greedy rule, of which the one
/// with the shortest longest span is taken.
std::vector<Problem> check_zb_1p(const ScheduleShape& shape);
Schedule zb_1p(const ScheduleShape& shape);
std::vector<Problem> check_zb_2p(const ScheduleShape& shape);
Schedule zb_2p(const ScheduleShape& shape);
std::vector<Problem> check_zb_auto(const ScheduleShape& shape);
Schedule zb_auto(const ScheduleShape& shape);

/// ZBV by hand, PyTorch's ZBVZeroBubble: V placement, two chunks a rank; with equal times no rank
/// is ever idle between its first and last op once m >= 2p - 1. Each rank holds 2p pairs.
std::vector<Problem> check_zbv(const ScheduleShape& shape);
Schedule zbv(const ScheduleShape& shape);

/// ZBV as the zero-bubble repository plans it from costs (zbv.py); limit 2p pairs unless given.
std::vector<Problem> check_zbv_auto(const ScheduleShape& shape);
Schedule zbv_auto(const ScheduleShape& shape);

/// 1F1B on the V placement, backward whole (zero-bubble repository, v1f1b.py): a building block of
/// six columns a microbatch, whose ops move as far forward as no peak rises.
std::vector<Problem> check_v_1f1b(const ScheduleShape& shape);
Schedule v_1f1b(const ScheduleShape& shape);

/// The schedule of shortest span among those of all building blocks whose legs move evenly from
/// rank to rank, for a limit of the costs' activations a rank, 2p unless given (zero-bubble
/// repository, v_auto_schedule.py): trades memory for bubble between v-min and zbv.
/// Legal: p >= 2, a limit of 2*floor((p + 4)/3) activations at least.
std::vector<Problem> check_v_auto(const ScheduleShape& shape);
Schedule v_auto(const ScheduleShape& shape);

/// V-Half and V-Min (Qi et al. 2024, Pipeline Parallelism with Controllable Memory), as the
/// zero-bubble repository reorders them (zbv_greedy.py): V placement, two chunks a rank, and for
/// m >= 2p 2*floor((p + 2)/2) and 2*floor((p + 4)/3) pairs on each rank.
std::vector<Problem> check_v_half(const ScheduleShape& shape);
Schedule v_half(const ScheduleShape& shape);
std::vector<Problem> check_v_min(const ScheduleShape& shape);
Schedule v_min(const ScheduleShape& shape);

}  // namespace pipeledger
