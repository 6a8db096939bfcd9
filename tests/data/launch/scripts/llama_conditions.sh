#!/bin/bash
# Arrays whose elements hold a flag and its value, [[ ]] with ||, a test of files before exit.
TOKENIZER=${1:-"MOCK"}
DTYPE="fp8"
TP=2
SEQ=8192
MORE=()
if [[ "$DTYPE" == "fp8" ]]; then
    MORE+=(
        "--fp8-format hybrid"
        "--fp8-amax-history-len 1024"
        "--fp8-param-gather"
    )
fi
DATA=()
if [[ "$TOKENIZER" == "MOCK" ]] || [[ -z "$TOKENIZER" ]]; then
    DATA+=("--mock-data" "--tokenizer-type NullTokenizer" "--vocab-size 128256" "--split '99,1,0'")
else
    DATA+=("--tokenizer-model $TOKENIZER")
fi
OPTIMIZER=(--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather)
MORE+=("${OPTIMIZER[@]}")
if [ ! -f "pretrain_gpt.py" ]; then
    echo "Error: pretrain_gpt.py is not here"
    exit 1
fi
torchrun --nproc_per_node 8 --nnodes 1 \
    "pretrain_gpt.py" \
    --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 \
    --group-query-attention --num-query-groups 8 --kv-channels 128 --seq-length $SEQ \
    --max-position-embeddings $SEQ --position-embedding-type rope --attention-dropout 0.0 \
    --hidden-dropout 0.0 --swiglu --normalization RMSNorm --attention-backend fused \
    --untie-embeddings-and-output-weights --disable-bias-linear --micro-batch-size 1 \
    --global-batch-size 128 --bf16 --grad-reduce-in-bf16 --sequence-parallel \
    --tensor-model-parallel-size $TP \
    ${MORE[@]} ${DATA[@]}
