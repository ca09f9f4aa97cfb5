#!/usr/bin/env python3
"""Diffusion models that are Qwen2's, Qwen3's, Qwen3-MoE's or Llama's layers, against the package transformers.

The reference of the logits is the package's own class with the mask of the family in place of the causal one: blocks
counted from position 0, or none. Folders are saved as the installed package saves them. --sdar DIR: a checkout of SDAR,
whose generate.py gives the ids of whole generations.

    tools/upstream/qwen.py --sdar SDAR
"""
import pathlib
import sys

import torch

import common
from common import EOS, MASK, VOCABULARY

BASE = dict(vocab_size=VOCABULARY, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=512, rms_norm_eps=1e-6, pad_token_id=EOS, eos_token_id=EOS,
            attn_implementation="eager", tie_word_embeddings=False)
THETA = dict(rope_parameters=dict(rope_type="default", rope_theta=1000000.0))
EXPERTS = dict(num_experts=8, num_experts_per_tok=3, moe_intermediate_size=32, norm_topk_prob=True)


def model_of(kind, **fields):
    import transformers
    config_class = getattr(transformers, f"{kind}Config")
    model_class = getattr(transformers, f"{kind}ForCausalLM")
    return model_class(config_class(**{**BASE, **THETA, **fields})).float().eval()


# name: class of the package and its fields; class of the family, keys of its config.json, block (0: full), what llada
# is told beside the folder
FAMILIES = {
    "SDAR": ("Qwen3", dict(head_dim=32), "SDARForCausalLM", dict(block_size=4), 4, ()),
    "SDAR, its older key, tied": ("Qwen3", dict(head_dim=16, tie_word_embeddings=True), "SDARForCausalLM",
                                  dict(block_length=8), 8, ()),
    "SDAR-MoE": ("Qwen3Moe", dict(head_dim=32, **EXPERTS), "SDARMoeForCausalLM", dict(block_size=4), 4, ()),
    "SDAR-MoE, gates as they are": ("Qwen3Moe", {**EXPERTS, "norm_topk_prob": False, "head_dim": 16},
                                    "SDARMoeForCausalLM", dict(), 4, ()),
    "Qwen3-diffusion-mdlm": ("Qwen3", dict(head_dim=32), "A2DQwen3LMHeadModel", dict(), 0, ()),
    "Qwen3-diffusion-bd3lm": ("Qwen3", dict(head_dim=32), "A2DQwen3LMHeadModel", dict(), 32,
                              ("--attention-block", 32)),
    "Qwen2.5-diffusion": ("Qwen2", dict(), "A2DQwen2LMHeadModel", dict(), 0, ()),
    "RND1": ("Qwen3Moe", dict(head_dim=32, **EXPERTS), "RND1LM", dict(), 0, ()),
    "Fast-dLLM v2": ("Qwen2", dict(), "Fast_dLLM_QwenForCausalLM", dict(bd_size=16), 16, ()),
    "Stable-DiffCoder": ("Llama", dict(head_dim=32), "StableDiffcoderForCausalLM", dict(), 4, ()),
    "Qwen3, told": ("Qwen3", dict(head_dim=32), "Qwen3ForCausalLM", dict(), 8,
                    ("--mask-id", MASK, "--attention-block", 8)),
    "Llama, told": ("Llama", dict(), "LlamaForCausalLM", dict(), 0, ("--mask-id", MASK, "--attention-block", 0)),
}


def mask_of(rows, columns, block):
    if block == 0:
        return torch.zeros(1, 1, rows, columns)
    key, query = torch.arange(columns) // block, torch.arange(columns - rows, columns) // block
    return torch.where(key[None, :] <= query[:, None], 0.0, float("-inf"))[None, None]


def logits_of(model, ids, block):
    return model(torch.tensor([ids]), attention_mask=mask_of(len(ids), len(ids), block), use_cache=False).logits[0]


class ForSdar:
    """The class as SDAR's loop calls it: a 0/1 mask, and K/V that is kept only where it says so."""

    device = torch.device("cpu")

    def __init__(self, model):
        self.model, self.forwards = model, 0

    def eval(self):
        return self

    def __call__(self, ids, attention_mask, position_ids, past_key_values, use_cache, store_kv):
        self.forwards += not store_kv
        before = past_key_values.get_seq_length()
        mask = torch.where(attention_mask[:, None] > 0, 0.0, float("-inf"))
        out = self.model(ids, attention_mask=mask, position_ids=position_ids, past_key_values=past_key_values,
                         use_cache=use_cache)
        if not store_kv:
            past_key_values.crop(before - past_key_values.get_seq_length())
        return out


def greedy(module):
    """SDAR's loop draws its tokens; this takes the best one and its probability, as a draw at temperature 0 does."""

    def best(logits, **_):
        p = torch.softmax(logits.float(), -1).max(-1)
        return p.indices, p.values

    module.sample_with_temperature_topk_topp = best
    return module.block_diffusion_generate


def sdar_generations(table, args, path, model, block, generate, told):
    # prompt, gen, steps of a block, threshold: prompts that end inside a block. With 1 < steps < block their loop may
    # ask for more positions than masks are left, and overwrites tokens that were final; llada never does.
    runs = [(21, 43, block, 0.9), (32, 32, block, 0.3), (6, 58, block, 0.5), (40, 24, 1, 0.6)]
    for length, gen, steps, threshold in runs[: 1 if args.quick else None]:
        prompt = table.prompt(length)
        wrapped = ForSdar(model)
        theirs = generate(wrapped, dict(input_ids=torch.tensor([prompt])), mask_id=MASK, gen_length=gen,
                          block_length=block, denoising_steps=steps,
                          remasking_strategy="low_confidence_dynamic", confidence_threshold=threshold)[0].tolist()
        blocks = -(-(length + gen) // block) - length // block
        ours, nfe = common.our_ids(args.llada, path, prompt, "--accept", "llada2", "--threshold", threshold,
                                   "--gen-length", gen, "--block-length", block, "--steps",
                                   steps * blocks, *told)
        table.ids(theirs[length:][:gen], ours[:gen], (wrapped.forwards, nfe))


def fast_dllm_generations(table, args, path, model, block):
    """Fast-dLLM v2's loop, from a description: the first token of a block is that of the row before it; then come
    sub-blocks, of which everything above the threshold is taken, and always the surest."""
    runs = [(21, 43, 4, 0.9), (32, 32, 8, 0.3), (6, 58, 8, 0.5)]
    for length, gen, own, threshold in runs[: 1 if args.quick else None]:
        tokens, forwards, end = table.prompt(length), 0, -(-(length + gen) // block) * block
        prompt = list(tokens)
        while len(tokens) < end:
            begin, given = len(tokens) // block * block, len(tokens)
            tokens += [MASK] * (begin + block - given)
            if given == begin:
                tokens[begin], forwards = logits_of(model, tokens, block)[begin - 1].argmax().item(), forwards + 1
            for sub in range(begin, begin + block, own):
                while masks := [p for p in range(sub, sub + own) if tokens[p] == MASK]:
                    best = torch.softmax(logits_of(model, tokens, block)[[p - 1 for p in masks]].double(), -1).max(-1)
                    surest, forwards = best.values.argmax().item(), forwards + 1
                    for i, p in enumerate(masks):
                        if best.values[i] > threshold or i == surest:
                            tokens[p] = best.indices[i].item()
        ours, nfe = common.our_ids(args.llada, path, prompt, "--accept", "llada2", "--threshold", threshold,
                                   "--gen-length", gen, "--block-length", own, "--kv", "block")
        table.ids(tokens[length:][:gen], ours[:gen], (forwards, nfe))


def work(args):
    generate = greedy(common.load(args.sdar, "generate")) if args.sdar else None
    table = common.Comparison("Qwen's and Llama's layers without a causal mask", args)
    for index, (name, (kind, fields, architecture, keys, block, told)) in enumerate(FAMILIES.items()):
        if args.quick and index % 2:
            continue
        with table.model(name) as path:
            model = model_of(kind, **fields)
            common.randomise(model, args.seed + index)
            model.tie_weights()
            common.save_pretrained(path, model, architecture, keys)
            canvas = table.canvas(75)
            table.logits(logits_of(model, canvas, block), common.our_logits(args.llada, path, canvas, *told))
            if architecture.startswith("Fast_dLLM"):
                fast_dllm_generations(table, args, path, model, block)
            if generate and architecture.startswith("SDAR") and not fields.get("tie_word_embeddings"):
                sdar_generations(table, args, path, model, block, generate, told)
    return table.report()


if __name__ == "__main__":
    parser = common.arguments(__doc__)
    parser.add_argument("--sdar", type=pathlib.Path, help="a checkout of SDAR")
    sys.exit(common.main(work, parser.parse_args()))
