#!/bin/bash
# Before the pattern there were ratios: Megatron spreads the layers itself.
torchrun --nproc_per_node 8 pretrain_mamba.py \
    --num-layers 24 --hidden-size 1024 --num-attention-heads 16 \
    --hybrid-attention-ratio 0.08 --hybrid-mlp-ratio 0.5 \
    --group-query-attention --num-query-groups 8 \
    --position-embedding-type none --normalization RMSNorm --disable-bias-linear \
    --untie-embeddings-and-output-weights \
    --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 4 --global-batch-size 32 \
    --tensor-model-parallel-size 1 --use-distributed-optimizer --bf16 \
    --vocab-size 256000 --tokenizer-type GPTSentencePieceTokenizer
