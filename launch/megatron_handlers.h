// What flags decide that is no field of their name: a handler for each decision, with the flags it
// asks and the fields it reads and writes. The order in which handlers run follows from that. For
// launch/megatron_*.cc and its tests.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launch/megatron_document.h"

namespace pipeledger {

struct FlagHandler {
  std::string_view name;
  void (*run)(MegatronDocument& document);
  /// By blanks: flags that it asks besides its own, which are those that name it in the table of
  /// flags.
  std::string_view asks;
  /// By blanks: fields that it asks for. Whoever writes them runs before.
  std::string_view reads;
  /// By blanks: fields that it sets, removes or finds wrong. It may read them too. A group stands
  /// for all that lies in it. Of several writers of a field `field_precedences` says which run
  /// first.
  std::string_view writes;
};

/// The first is "fields", which writes the fields of the flags that are one.
std::span<const FlagHandler> megatron_handlers();

/// A field that several write, and by blanks who, from the weakest to the strongest: attributes of
/// flags that are this field, then handlers.
struct FieldPrecedence {
  std::string_view field;
  std::string_view writers;
};
std::span<const FieldPrecedence> field_precedences();

/// Each behind all that must run before it; of those that may come next the one that comes first in
/// `handlers`. Aborts when they wait for each other.
std::vector<const FlagHandler*> in_order(std::span<const FlagHandler> handlers);

/// What the handler declares. A flag is asked by its attribute.
bool asks_flag(const FlagHandler& handler, std::string_view dest);
bool reads_field(const FlagHandler& handler, std::string_view path);
bool writes_field(const FlagHandler& handler, std::string_view path);

// launch/megatron_fields.cc
void map_fields(MegatronDocument& document);
// launch/megatron_hybrid.cc
void map_hybrid(MegatronDocument& document);
void map_linear_attention(MegatronDocument& document);
// launch/megatron_model.cc
void map_spec(MegatronDocument& document);
void map_normalization(MegatronDocument& document);
void map_positions(MegatronDocument& document);
void map_quick_geglu(MegatronDocument& document);
void map_query_groups(MegatronDocument& document);
void map_window(MegatronDocument& document);
void map_former_experts(MegatronDocument& document);
void map_vocabulary(MegatronDocument& document);
// launch/megatron_multimodal.cc
void map_multimodal(MegatronDocument& document);
// launch/megatron_train.cc
void map_precision(MegatronDocument& document);
void map_gradients(MegatronDocument& document);
void map_attention(MegatronDocument& document);
void map_attention_mask(MegatronDocument& document);
void map_recompute(MegatronDocument& document);
void map_optimizer(MegatronDocument& document);
void map_zero_stage(MegatronDocument& document);
void map_sharding(MegatronDocument& document);
// launch/megatron_world.cc
void map_overlap_p2p(MegatronDocument& document);
void map_pp_partition(MegatronDocument& document);
void map_ulysses(MegatronDocument& document);
void map_cp_comm_type(MegatronDocument& document);
void map_world(MegatronDocument& document);
void map_alloc_conf(MegatronDocument& document);
void map_batch(MegatronDocument& document);

}  // namespace pipeledger
