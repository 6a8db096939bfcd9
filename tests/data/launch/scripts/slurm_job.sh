#!/bin/bash
#SBATCH --job-name=moe
#SBATCH --nodes=16               # of eight
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:8
# Slurm's own lines, a launcher in a variable, a sweep of which the first turn is read.
# arguments: --set-env MASTER=10.0.0.1
GPUS_PER_NODE=8
export LAUNCHER="torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $SLURM_NNODES \
    --rdzv_endpoint $MASTER:6000 --rdzv_backend c10d --max_restarts 0 --tee 3"
function train() {
    local micro=$1
    local tp=${2:-8}
    srun --jobid $SLURM_JOB_ID bash -c "$LAUNCHER --node_rank \$SLURM_PROCID pretrain_gpt.py \
        --num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 --num-attention-heads 64 \
        --group-query-attention --num-query-groups 8 --seq-length 4096 --swiglu --bf16 \
        --max-position-embeddings 4096 --use-rotary-position-embeddings --normalization RMSNorm \
        --untie-embeddings-and-output-weights --disable-bias-linear --vocab-size 32000 \
        --tensor-model-parallel-size $tp --pipeline-model-parallel-size 4 --sequence-parallel \
        --num-layers-per-virtual-pipeline-stage 5 --micro-batch-size $micro \
        --global-batch-size $((128 * micro)) --use-distributed-optimizer --overlap-grad-reduce \
        --recompute-granularity full --recompute-method block --recompute-num-layers 1 \
        --no-async-tensor-model-parallel-allreduce"
}
for micro in 1 2 4; do
    train $micro
done
