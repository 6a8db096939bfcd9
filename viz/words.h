// What every picture says in the same words: names of spans, the worst peak, escaped text.
#pragma once

#include <string>
#include <string_view>

#include "trace/metrics.h"
#include "trace/step_trace.h"

namespace pipeledger {

/// 'F', 'B', 'I' or 'W'. Requires: is_op(kind).
char letter(SpanKind kind);

/// "F 12" for an op, else what the rank does: "optimizer", "wait: p2p", ... Perfetto colours a
/// slice by its name without digits, so all forwards share a colour.
std::string slice_name(const Span& span);

/// "2F0": stage 2, forward, microbatch 0; else "optim" or "wait"; "idle" for nullptr.
std::string short_name(const Span* span);

/// "F of microbatch 0, stage 2"; else as slice_name; "idle time" for nullptr.
std::string long_name(const Span* span);

/// "transfer", by kind: activation, gradient, grad sync, param sync.
std::string_view name(TransferKind kind);

/// By stage, which of its rank's stages it is: 0..v-1.
std::vector<Chunk> chunks(const StepTrace& trace);

/// "0" or "0, 4, 8": the stages of `rank`.
std::string stages_of(const StepTrace& trace, Rank rank);

/// The rank with the highest peak (the first of equals).
Rank worst_rank(const StepMetrics& metrics);

bool fits(const StepTrace& trace, const RankMetrics& rank);
bool fits(const StepTrace& trace, const StepMetrics& metrics);

/// The category that takes most of `rank`'s peak.
Category largest_category(const RankMetrics& rank);

/// Text between tags or in an attribute: & < > " ' escaped, control characters and bytes that are
/// not UTF-8 replaced by U+FFFD.
std::string xml_text(std::string_view text);

}  // namespace pipeledger
