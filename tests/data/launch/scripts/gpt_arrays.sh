#!/bin/bash
# Bash arrays, positional arguments for paths, sums. arguments of the test:
# arguments: --set-env NUM_NODES=16
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NUM_NODES=1
WORLD_SIZE=$(($GPUS_PER_NODE*$NUM_NODES))
CHECKPOINTS=$1 #<a path>

LAUNCH=(
    --nproc_per_node $GPUS_PER_NODE 
    --nnodes $NUM_NODES 
    --master_port 6000
)
SIZE=(
    --num-layers 96 
    --hidden-size 12288 
    --num-attention-heads 96 
    --seq-length 2048 
    --max-position-embeddings 2048 
    --attention-backend auto # one of (flash/fused/unfused/local)
)
STEP=(
    --micro-batch-size 1 
    --global-batch-size 1536
    --rampup-batch-size 16 16 5859375
    --fp16
    --lr 6.0e-5 
    --lr-warmup-fraction .001 
)
CUT=(
	--tensor-model-parallel-size 8 
	--pipeline-model-parallel-size 16 
)
torchrun ${LAUNCH[@]} pretrain_gpt.py \
    ${SIZE[@]} \
    ${STEP[@]} \
    ${CUT[@]} \
    --tokenizer-type GPT2BPETokenizer --vocab-file $2 \
    --save $CHECKPOINTS --load $CHECKPOINTS
