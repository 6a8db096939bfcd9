// The families of models whose config.json is read. A new family is a row of the table in
// hf_families.cc; one that is built otherwise than as embedding, decoder layers of one kind and
// head brings a reader of its own, in its own file.
#pragma once

#include <span>
#include <string_view>

#include "launch/hf_reader.h"

namespace pipeledger {

/// What the modelling code of a family fixes and config.json does not say.
struct HfFamily {
  std::string_view architecture;  // as config.json's "architectures" has it
  std::string_view model_type;
  /// Sets the fields of the model. read_hf_decoder asks the traits below; another one need not.
  void (*read)(HfReader& config, const HfFamily& family) = nullptr;

  bool has_gated_mlp = true;  // SwiGLU and RMSNorm; else GeLU and LayerNorm
  bool has_qk_norm = false;   // of query and key heads, or of what latent attention compresses
  std::string_view qkv_bias_key = "";  // turns the bias of q, k and v on
  bool has_qkv_bias = false;           // when that key is missing
  bool has_output_bias = false;        // attention's output has a bias where q, k and v have
  std::string_view mlp_bias_key = "";  // turns the bias of the MLP's matrices on
  bool has_mlp_bias = false;           // when that key is missing
  std::string_view hidden_dropout_key = "";
  /// What the family has besides: experts, latent attention, windows.
  void (*read_more)(HfReader& config) = nullptr;
};

std::span<const HfFamily> hf_families();

/// A decoder-only transformer whose layers are alike but for their feed-forward part.
void read_hf_decoder(HfReader& config, const HfFamily& family);
/// A hybrid of Mamba-2, attention, MLP and expert layers, one block each.
void read_hf_nemotron_h(HfReader& config, const HfFamily& family);

}  // namespace pipeledger
