#!/bin/bash
# The job is a heredoc, the training command a variable in it.
# arguments: --set model.vocab_size=129280 --set cluster.nodes=32
OUT=${OUT:-"out"}
TP=${TP:-1}
EP=${EP:-8}
FSDP=${FSDP:-0}
ARGS=(
    --tensor-model-parallel-size ${TP}
    --expert-model-parallel-size ${EP}
    --expert-tensor-parallel-size 1
    --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --sequence-parallel
    --disable-bias-linear --micro-batch-size 4 --global-batch-size 2048
    --recompute-granularity selective
    --recompute-modules mlp moe mla_up_proj layernorm
    --seq-length 4096 --num-layers 61 --hidden-size 7168 --ffn-hidden-size 18432
    --num-attention-heads 128 --kv-channels 128 --max-position-embeddings 4096
    --position-embedding-type rope --make-vocab-size-divisible-by 3232 --normalization RMSNorm
    --swiglu --untie-embeddings-and-output-weights --multi-latent-attention
    --attention-dropout 0.0 --hidden-dropout 0.0 --qk-layernorm
    --num-experts 256
    --moe-layer-freq [0]*3+[1]*58
    --moe-ffn-hidden-size 2048 --moe-shared-expert-intermediate-size 2048 --moe-router-topk 8
    --moe-token-dispatcher-type flex --moe-flex-dispatcher-backend hybridep --moe-grouped-gemm
    --moe-router-enable-expert-bias --moe-permute-fusion
    --q-lora-rank 1536 --kv-lora-rank 512 --qk-head-dim 128 --qk-pos-emb-head-dim 64
    --v-head-dim 128 --mtp-num-layers 1 --save ${OUT}/checkpoints --bf16
)
if [ "${FSDP}" = 1 ]; then
    unset CUDA_DEVICE_MAX_CONNECTIONS
    ARGS=("${ARGS[@]}" --use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params)
fi
TRAIN="
cd ${HERE};
git rev-parse HEAD;
export PYTHONPATH=${HERE}:${PYTHONPATH};
python ${HERE}/pretrain_gpt.py ${ARGS[@]}"
mkdir -p ${OUT} || {
    echo "cannot make ${OUT}"
    exit 1
}
sbatch <<EOF
#!/bin/bash
#SBATCH --nodes=your_number

srun --mpi=pmix -l --container-image=${IMAGE} \
    bash -x -c "${TRAIN}" 2>&1 | tee ${OUT}/\${SLURM_JOB_ID}.log

EOF
set -e
