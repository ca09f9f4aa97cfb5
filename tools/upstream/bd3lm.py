#!/usr/bin/env python3
"""dLLM's block diffusion (Qwen3-0.6B-diffusion-bd3lm): Qwen3's class of the package transformers, its sampler's mask.

The sampler fills up a prompt to whole blocks from the left, with padding that has no position and that nobody reads. So
blocks are counted from the end of the prompt, whose first block may be shorter. Writes tests/data/bd3lm: a small model
of random weights as a folder, and whole answers by the schedule (golden.json). The loop stands here and is written from
a description of the published one. --checkout DIR: a checkout of dLLM, whose sampler must give the same answers.

    tools/upstream/bd3lm.py [--out tests/data/bd3lm] [--checkout dllm]
"""
import argparse
import importlib
import json
import pathlib
import random
import sys
import types

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
VOCABULARY, MASK, EOS, PAD, BLOCK = 96, 90, 1, 91, 32
CONFIG = dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=2, head_dim=16, max_position_embeddings=256, rms_norm_eps=1e-6, pad_token_id=EOS,
              bos_token_id=None, eos_token_id=EOS, tie_word_embeddings=False)


def build(seed):
    from transformers import Qwen3Config, Qwen3ForCausalLM
    config = Qwen3Config(**CONFIG, rope_parameters=dict(rope_type="default", rope_theta=1000000.0))
    config._attn_implementation = "sdpa"
    model = Qwen3ForCausalLM(config).float().eval()
    generator = torch.Generator().manual_seed(seed)
    for name, value in sorted(model.named_parameters()):
        noise = torch.randn(value.shape, generator=generator)
        if value.dim() == 1:
            noise = 1 + 0.2 * noise
        elif "embed_tokens" not in name:
            noise *= (6 if "head" in name else 1.2) / value.shape[-1] ** 0.5
        value.copy_(noise.bfloat16().float())
        if "head" in name:
            value[MASK] = 0  # never the best: the published loop would write the mask
    return model


def by_schedule(model, prompt, length, steps):
    """steps: of a block, which divide its masks, or as many as these."""
    tokens, forwards = list(prompt), 0
    while len(tokens) < len(prompt) + length and EOS not in tokens[len(prompt):]:
        begin = len(tokens)
        tokens += [MASK] * min(BLOCK, len(prompt) + length - begin)
        at_once = max(len(tokens) - begin, steps) // steps
        block = (torch.arange(len(tokens)) + -len(prompt) % BLOCK) // BLOCK
        mask = (block[None, :] <= block[:, None])[None, None]
        while MASK in tokens:
            rows = model(torch.tensor([tokens]), attention_mask=mask, use_cache=False).logits[0]
            best = torch.softmax(rows, -1).max(-1)
            masks = [p for p in range(begin, len(tokens)) if tokens[p] == MASK]
            for p in sorted(masks, key=lambda p: -best.values[p].item())[:at_once]:
                tokens[p] = best.indices[p].item()
            forwards += 1
    answer = tokens[len(prompt):]
    return (answer[: answer.index(EOS) + 1] if EOS in answer else answer), forwards


class Sampler:
    """The published one; counts the forwards of blocks, and not those of what stands before a block."""

    def __init__(self, checkout):
        for name in ("dllm", "dllm.core", "dllm.core.samplers"):
            sys.modules[name] = types.ModuleType(name)
            sys.modules[name].__path__ = [str(checkout / name.replace(".", "/"))]
        self.module = importlib.import_module("dllm.core.samplers.bd3lm")

    def answer(self, model, prompt, length, steps):
        tokenizer = types.SimpleNamespace(mask_token_id=MASK, bos_token_id=None, pad_token_id=PAD, eos_token_id=EOS)
        calls = []

        def counted(*args, **kwargs):
            calls.append("past_key_values" in kwargs)
            return model(*args, **kwargs)

        counted.device = torch.device("cpu")
        sampler = self.module.BD3LMSampler(model=counted, tokenizer=tokenizer)
        out = sampler.sample([list(prompt)], max_new_tokens=length, block_size=BLOCK,
                             steps_per_block=steps)[0].tolist()
        answer = out[out.index(prompt[0]) + len(prompt):]
        return (answer[: answer.index(EOS) + 1] if EOS in answer else answer), sum(calls)


def goldens(model, seed, sampler):
    chance, answers = random.Random(seed), []
    for length, gen, steps in ((11, 64, 32), (32, 32, 8), (45, 40, 32), (3, 96, 16), (70, 64, 4)):
        prompt = [chance.randrange(3, MASK) for _ in range(length)]
        tokens, forwards = by_schedule(model, prompt, gen, steps)
        if sampler:
            published = sampler.answer(model, prompt, gen, steps)
            if published != (tokens, forwards):
                raise SystemExit(f"the published sampler gives {published}, the loop here {(tokens, forwards)}")
        answers.append(dict(prompt=prompt, length=gen, steps=steps, tokens=tokens, forwards=forwards))
    return answers


def write_folder(folder, model):
    from safetensors.torch import save_file
    folder.mkdir(parents=True, exist_ok=True)
    config = dict(architectures=["A2DQwen3LMHeadModel"], model_type="a2d-qwen3", hidden_act="silu",
                  rope_theta=1000000.0, mask_token_id=MASK, dtype="bfloat16", **CONFIG)
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    save_file({name: value.bfloat16().contiguous() for name, value in model.state_dict().items()},
              folder / "model.safetensors", metadata={"format": "pt"})


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "tests/data/bd3lm")
    parser.add_argument("--checkout", type=pathlib.Path, help="a checkout of dLLM")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = build(args.seed)
    answers = goldens(model, args.seed + 1, Sampler(args.checkout) if args.checkout else None)
    write_folder(args.out / "tiny-bd3lm", model)
    (args.out / "golden.json").write_text(json.dumps(dict(answers=answers)))


if __name__ == "__main__":
    main()
