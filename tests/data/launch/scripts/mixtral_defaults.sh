#!/bin/bash
# Defaults for what Slurm would set, a branch for a variable of the environment, +=.
# arguments: --set-env SLURM_NNODES=8
GPUS=8
NODES=${SLURM_NNODES:-"1"}
RANK_OF_NODE=${RANK:-"0"}
ARGS=(
    --use-mcore-models --disable-bias-linear --seq-length 4096 --max-position-embeddings 32768
    --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32
    --attention-dropout 0.0 --hidden-dropout 0.0 --normalization RMSNorm --swiglu
    --position-embedding-type rope --no-position-embedding --rotary-base 1000000
    --untie-embeddings-and-output-weights --group-query-attention --num-query-groups 8
)
EXPERTS=(--num-experts 8 --moe-router-topk 2 --moe-grouped-gemm --moe-token-dispatcher-type alltoall)
LOG=(--log-interval 1 \
     --tensorboard-dir "${OUT}/tensorboard" \
     --no-load-optim)
if [ -n "${WANDB_API_KEY}" ]; then
    LOG+=(--wandb-project ${WANDB_PROJECT:-"Mixtral"})
fi
torchrun --nproc_per_node $GPUS --nnodes $NODES --node_rank $RANK_OF_NODE pretrain_gpt.py \
    ${ARGS[@]} ${EXPERTS[@]} ${LOG[@]} --tokenizer-type Llama2Tokenizer --tokenizer-model ${TOKENIZER} \
    --micro-batch-size 1 --global-batch-size 256 --bf16 \
    --tensor-model-parallel-size 1 --pipeline-model-parallel-size 4 --expert-model-parallel-size 8 \
    --use-distributed-optimizer --sequence-parallel --overlap-param-gather --overlap-grad-reduce
