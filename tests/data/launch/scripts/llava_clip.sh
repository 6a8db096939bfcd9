#!/bin/bash
# The sizes of Megatron-LM's examples/multimodal/pretrain_mistral_clip.sh: a projection is trained
# between CLIP and Mistral 7B.
TP=4
MODEL=(
  --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --ffn-hidden-size 14336
  --group-query-attention --num-query-groups 8 --normalization RMSNorm --swiglu
  --disable-bias-linear --untie-embeddings-and-output-weights --position-embedding-type rope
  --max-position-embeddings 4096 --attention-dropout 0.0 --hidden-dropout 0.1
)
IMAGES=(
  --language-model-type=mistral_7b --patch-dim 14 --img-h 336 --img-w 336
  --disable-vision-class-token --freeze-LM --freeze-ViT --use-te
)
torchrun --nproc_per_node 8 --nnodes 2 examples/multimodal/train.py "${MODEL[@]}" "${IMAGES[@]}" \
  --tensor-model-parallel-size $TP --use-distributed-optimizer --bf16 \
  --micro-batch-size 1 --global-batch-size 256 --seq-length 576 --decoder-seq-length 1024 \
  --tokenizer-type MultimodalTokenizer --tokenizer-model mistralai/Mistral-7B-Instruct-v0.3 \
  --tokenizer-prompt-format mistral --dataloader-type external
