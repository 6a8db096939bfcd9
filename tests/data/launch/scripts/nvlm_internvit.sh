#!/bin/bash
# The sizes of Megatron-LM's examples/multimodal/nvlm/sft_qwen20_72b_internvit_6b.sh: tiles of an
# image, four patches to a token, the tower frozen.
TILES=6
OPTIONS=" \
  --num-layers 80 --hidden-size 8192 --ffn-hidden-size 29568 --num-attention-heads 64 \
  --group-query-attention --num-query-groups 8 --add-qkv-bias --disable-bias-linear --swiglu \
  --normalization RMSNorm --untie-embeddings-and-output-weights --position-embedding-type rope \
  --max-position-embeddings 32768 --attention-dropout 0.0 --hidden-dropout 0.0 \
  --language-model-type qwen2.0_72B --vision-model-type internvit --disable-vision-class-token \
  --patch-dim 14 --img-h 448 --img-w 448 --pixel-shuffle --use-tiling --max-num-tiles $TILES \
  --use-thumbnail --use-tile-tags --image-tag-type nvlm --freeze-ViT --use-te \
  --tensor-model-parallel-size 8 --pipeline-model-parallel-size 4 --use-distributed-optimizer \
  --seq-length 261 --decoder-seq-length 3200 --micro-batch-size 1 --global-batch-size 256 --bf16 \
  --tokenizer-type MultimodalTokenizer --tokenizer-model Qwen/Qwen2-72B-Instruct \
  --tokenizer-prompt-format qwen2p0 \
"
srun --nodes 8 --ntasks-per-node 8 sh -c "python -u examples/multimodal/train.py ${OPTIONS}"
