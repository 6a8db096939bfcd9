// The kernels of one microbatch on one TP rank, for the roofline.
//
// GEMMs carry 2*m*n*k flops and the bytes of their three matrices; what streams through memory
// carries the bytes it reads and writes. Transformer Engine fuses as named here: norm into the
// linear's launch (still one pass), bias and activation into one, bias, dropout and residual into
// one.
#pragma once

#include <vector>

#include "ledger/ledger.h"

namespace pipeledger {

std::vector<Kernel> layer_forward_kernels(const Scenario& scenario);
/// Selective recompute runs the core attention's forward again, first.
std::vector<Kernel> layer_backward_kernels(const Scenario& scenario);

std::vector<Kernel> embedding_forward_kernels(const Scenario& scenario);
std::vector<Kernel> embedding_backward_kernels(const Scenario& scenario);

std::vector<Kernel> head_forward_kernels(const Scenario& scenario);
std::vector<Kernel> head_backward_kernels(const Scenario& scenario);

}  // namespace pipeledger
