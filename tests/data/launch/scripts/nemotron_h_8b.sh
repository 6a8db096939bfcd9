#!/bin/bash
# A hybrid model of Nemotron-H's shape, by its pattern (core_v0.12 to v0.15 write --hybrid-override-pattern).
export CUDA_DEVICE_MAX_CONNECTIONS=1
NNODES=4
GPUS_PER_NODE=8
PATTERN="M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-"

MODEL="
    --num-layers 52
    --hidden-size 4096
    --ffn-hidden-size 21504
    --num-attention-heads 32
    --group-query-attention
    --num-query-groups 8
    --kv-channels 128
    --hybrid-override-pattern ${PATTERN}
    --is-hybrid-model
    --mamba-num-heads 128
    --mamba-state-dim 128
    --mamba-head-dim 64
    --mamba-num-groups 8
    --position-embedding-type none
    --squared-relu
    --normalization RMSNorm
    --untie-embeddings-and-output-weights
    --disable-bias-linear
    --attention-dropout 0.0
    --hidden-dropout 0.0
    --spec megatron.core.models.mamba.mamba_layer_specs mamba_stack_spec
"
torchrun --nnodes ${NNODES} --nproc_per_node ${GPUS_PER_NODE} pretrain_mamba.py ${MODEL} \
    --tensor-model-parallel-size 4 \
    --sequence-parallel \
    --pipeline-model-parallel-size 2 \
    --use-distributed-optimizer \
    --overlap-grad-reduce \
    --overlap-param-gather \
    --seq-length 8192 \
    --max-position-embeddings 8192 \
    --micro-batch-size 1 \
    --global-batch-size 64 \
    --vocab-size 131072 \
    --tokenizer-type NullTokenizer \
    --bf16 \
    --train-iters 100 \
    --lr 3e-4
