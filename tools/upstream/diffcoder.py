#!/usr/bin/env python3
"""Stable-DiffCoder's own class beside this program: Llama's layers, blocks of 4, the last cut where the answer ends.

The loop is the class's generate_block(). --checkout DIR: a folder that holds modeling_stable_diffcoder.py, which comes with
the published weights. Forwards are those that decide something; the class has another one for each finished block, whose
keys and values this program writes with the next.

    tools/setup.sh upstream && build/venv/bin/python tools/upstream/diffcoder.py --checkout Stable-DiffCoder-8B-Instruct
"""
import sys

import torch

import common
from common import EOS, MASK, VOCABULARY

BLOCK = 4
SIZES = dict(vocab_size=VOCABULARY, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=512, rms_norm_eps=1e-6, pad_token_id=EOS, eos_token_id=EOS,
             attn_implementation="eager", tie_word_embeddings=False, rope_theta=500000.0)
MODELS = {"heads of 16": {}, "three layers, one key of four heads": dict(num_hidden_layers=3, num_key_value_heads=1),
          "heads of 32": dict(head_dim=32)}
# prompt, length of the answer, threshold (None: one token per forward): prompts that end inside a block and at its end
RUNS = [(6, 56, 0.5), (21, 44, 0.95), (32, 32, 0.3), (7, 40, None), (16, 24, 0.6), (3, 4, 0.9)]


def older_torch():
    """PyTorch before 2 takes no tensor for the k of topk(), which the class gives it."""
    topk = torch.topk
    torch.topk = lambda values, k, **more: topk(values, int(k), **more)


def forwards_that_decide(model, counted):
    model.register_forward_pre_hook(lambda _, inputs: counted.append(bool((inputs[0] == MASK).any())))


def work(args):
    module = common.load(common.place(args.checkout, "modeling_stable_diffcoder"), "modeling_stable_diffcoder")
    from transformers import LlamaConfig
    older_torch()
    table = common.Comparison("Stable-DiffCoder's own class", args)
    for index, (name, fields) in enumerate(MODELS.items()):
        if args.quick and index % 2:
            continue
        with table.model(name) as path:
            model = module.StableDiffcoderForCausalLM(LlamaConfig(**{**SIZES, **fields})).float().eval()
            common.randomise(model, args.seed + index)
            common.save(path, model, "StableDiffcoderForCausalLM")
            canvas, counted = table.canvas(76), []
            mask = model._make_block_causal_mask(len(canvas), BLOCK, "cpu", dtype=torch.float32)
            table.logits(model(torch.tensor([canvas]), attention_mask=mask, use_cache=False).logits[0],
                         common.our_logits(args.llada, path, canvas))
            forwards_that_decide(model, counted)
            for length, count, threshold in RUNS[: 1 if args.quick else None]:
                prompt = table.prompt(length)
                counted.clear()
                theirs, _ = model.generate_block(torch.tensor([prompt]), steps=count, gen_length=count, mask_id=MASK,
                                                 threshold=threshold)
                rule = ("--threshold", threshold) if threshold else ()
                ours, nfe = common.our_ids(args.llada, path, prompt, "--gen-length", count, "--block-length", BLOCK, "--kv",
                                           "block", *rule)
                table.ids(theirs[0, length:].tolist(), ours, (sum(counted), nfe))
    return table.report()


if __name__ == "__main__":
    parser = common.arguments(__doc__, checkout="a folder that holds the class")
    arguments = parser.parse_args()
    if arguments.checkout is None:
        parser.error("--checkout DIR is needed")
    sys.exit(common.main(work, arguments))
