#!/bin/bash
# Gated delta net in three of four layers, experts in all.
torchrun --nnodes 4 --nproc_per_node 8 pretrain_gpt.py \
    --num-layers 48 --hidden-size 2048 --ffn-hidden-size 5120 --num-attention-heads 16 \
    --group-query-attention --num-query-groups 2 --kv-channels 256 --qk-layernorm --attention-output-gate \
    --experimental-attention-variant gated_delta_net --linear-attention-freq 4 \
    --linear-conv-kernel-dim 4 --linear-key-head-dim 128 --linear-value-head-dim 128 \
    --linear-num-key-heads 16 --linear-num-value-heads 32 \
    --num-experts 512 --moe-router-topk 10 --moe-ffn-hidden-size 512 --moe-grouped-gemm \
    --moe-shared-expert-intermediate-size 512 --moe-shared-expert-gate --moe-token-dispatcher-type alltoall \
    --swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear \
    --untie-embeddings-and-output-weights --attention-dropout 0 --hidden-dropout 0 \
    --seq-length 4096 --max-position-embeddings 262144 --micro-batch-size 1 --global-batch-size 256 \
    --expert-model-parallel-size 8 --pipeline-model-parallel-size 2 --use-distributed-optimizer --bf16 \
    --recompute-granularity selective --recompute-modules gdn_norm_out \
    --vocab-size 151936 --tokenizer-type NullTokenizer
