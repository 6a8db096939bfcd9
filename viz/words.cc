#include "viz/words.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json_text.h"
#include "base/text.h"

namespace pipeledger {

char letter(SpanKind kind) { return "FBIW"[static_cast<int>(kind)]; }

std::string slice_name(const Span& span) {
  if (is_op(span.kind)) return fmt::format("{} {}", letter(span.kind), span.microbatch.value);
  if (span.kind == SpanKind::optimizer) return "optimizer";
  if (span.kind == SpanKind::exposed_p2p) return "wait: p2p";
  if (span.kind == SpanKind::exposed_grad_sync) return "wait: grad sync";
  if (span.kind == SpanKind::exposed_param_sync) return "wait: param sync";
  return "wait: host";
}

std::string short_name(const Span* span) {
  if (span == nullptr) return "idle";
  if (span->kind == SpanKind::optimizer) return "optim";
  if (!is_op(span->kind)) return "wait";
  return fmt::format("{}{}{}", span->stage.value, letter(span->kind), span->microbatch.value);
}

std::string long_name(const Span* span) {
  if (span == nullptr) return "idle time";
  if (!is_op(span->kind)) return slice_name(*span);
  return fmt::format("{} of microbatch {}, stage {}", letter(span->kind), span->microbatch.value,
                     span->stage.value);
}

std::string_view name(TransferKind kind) {
  constexpr std::array<std::string_view, 4> names = {"activation", "gradient", "grad sync",
                                                     "param sync"};
  return names[static_cast<std::size_t>(kind)];
}

std::vector<Chunk> chunks(const StepTrace& trace) {
  std::vector<Chunk> chunk_of_stage;
  std::vector<int> seen(trace.ranks.size());
  for (const Rank rank : trace.stage_ranks) {
    chunk_of_stage.push_back(Chunk{seen[rank.index()]++});
  }
  return chunk_of_stage;
}

std::string stages_of(const StepTrace& trace, Rank rank) {
  std::vector<std::string> stages;
  for (std::size_t s = 0; s < trace.stage_ranks.size(); ++s) {
    if (trace.stage_ranks[s] == rank) stages.push_back(std::to_string(s % trace.num_stages()));
  }
  return join(stages);
}

Rank worst_rank(const StepMetrics& metrics) {
  const auto worst = std::max_element(metrics.ranks.begin(), metrics.ranks.end(),
                                      [](const RankMetrics& a, const RankMetrics& b) {
                                        return a.peak_allocated_bytes < b.peak_allocated_bytes;
                                      });
  return Rank{static_cast<int>(worst - metrics.ranks.begin())};
}

bool fits(const StepTrace& trace, const RankMetrics& rank) {
  return rank.peak_allocated_bytes <= trace.memory_capacity_bytes;
}

bool fits(const StepTrace& trace, const StepMetrics& metrics) {
  return fits(trace, metrics.ranks[worst_rank(metrics).index()]);
}

Category largest_category(const RankMetrics& rank) {
  const auto& bytes = rank.composition_at_peak;
  return kCategories[static_cast<std::size_t>(std::max_element(bytes.begin(), bytes.end()) -
                                              bytes.begin())];
}

std::string xml_text(std::string_view text) {
  // The JSON writer has put every byte into valid UTF-8 and every control character into an
  // escape; reading it back leaves valid text.
  const std::string valid = Json::parse(json_string(text)).get<std::string>();
  std::string out;
  for (const char c : valid) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c == '\'') {
      out += "&#39;";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += "\xEF\xBF\xBD";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace pipeledger
