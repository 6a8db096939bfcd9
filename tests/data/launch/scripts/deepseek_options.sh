#!/bin/bash
# Everything is a positional argument; sizes in an if, options in strings, eval at the end.
# arguments: --skip-unknown --set model.vocab_size=102400 --set-env KIND=dsw --set-env GPUS=8
# arguments: --set-env SIZE=A2.4B --set-env TP=1 --set-env PP=1 --set-env EP=4 --set-env AC=sel
# arguments: --set-env TOKENS=1000000
set -e
KIND=$1
HERE="$( cd "$( dirname "$0" )" && pwd )"
if [ -z ${LAYERS_A_UNIT} ];then
    LAYERS_A_UNIT=1
fi
if [ $KIND = dsw ]; then
PORT=$(shuf -n 1 -i 10000-65535)
NNODES=1
GPUS=`python -c "import torch; print(torch.cuda.device_count())"`
elif [ $KIND = dlc ]; then
    NNODES=${WORLD_SIZE}
fi
SIZE=$2
TP=${10}
PP=${11}
EP=${12}
AC=${13}
TOKENS=${24}
SEQ=4096
BATCH=32
if [ $SIZE = A2.4B ]; then
LAYERS=27
EXPERT=1408
SHARED=2
sizes=" \
    --hidden-size 2048 \
    --num-attention-heads 16 \
    --ffn-hidden-size 10944 \
    --num-experts 64 \
    --moe-router-topk 6 \
    --moe-layer-freq [0]*1+[1]*26 \
    --moe-ffn-hidden-size ${EXPERT} \
    --moe-shared-expert-intermediate-size $((${EXPERT} * ${SHARED} )) \
    --expert-model-parallel-size ${EP} \
    --kv-lora-rank 512 \
    --v-head-dim 128"
elif [ $SIZE = A21B ]; then
LAYERS=60
sizes="--hidden-size 5120"
fi
if [ $AC = full ]; then
    _check=$(( ($LAYERS / $PP) % ${LAYERS_A_UNIT} ))
    if [ $_check != 0 ]; then
        echo "layers of a rank must be a multiple of the unit"
        exit -1
    fi
    recompute="--recompute-method uniform --recompute-num-layers ${LAYERS_A_UNIT} --recompute-granularity full"
elif [ $AC = sel ]; then
    recompute=" \
        --recompute-activations"
fi
overlap=$(( ($TP > 1) ? 1 : 0 ))
if [ $overlap -eq 1 ]; then
    comm="--tp-comm-overlap"
fi
ITERS=$(( ${TOKENS} / ${BATCH} / ${SEQ} ))
options="  \
        --lr-decay-iters ${ITERS} \
        --micro-batch-size 1 \
        --global-batch-size ${BATCH} \
        --num-layers ${LAYERS} \
        --seq-length ${SEQ} \
        --max-position-embeddings ${SEQ} \
        --max-padding-length ${SEQ} \
        --tensor-model-parallel-size ${TP} \
        --pipeline-model-parallel-size ${PP} \
        --extra-vocab-size 2400 \
        --patch-tokenizer-type DeepSeekV2Tokenizer \
        --swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear \
        --untie-embeddings-and-output-weights --qk-layernorm --multi-latent-attention \
        --attention-dropout 0.0 --hidden-dropout 0.0 --bf16 \
        "
run_cmd="torchrun --nproc_per_node $GPUS --nnodes $NNODES --master_port $PORT pretrain_deepseek.py
 ${options} ${sizes} ${recompute} ${comm} --use-distributed-optimizer"
echo ${run_cmd}
eval ${run_cmd}
set +x
