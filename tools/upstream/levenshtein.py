#!/usr/bin/env python3
"""LLaDA2.2's loop over one block at a time: goldens for tests/decode/levenshtein_test.cc.

The model is a hash: the logits of a position follow from the seed, the position, and the tokens at it and beside it, so
that the test computes the same ones. The loop is written after the description in src/decode/levenshtein.h.

--sglang FILE: SGLang's python/sglang/srt/dllm/algorithm/joint_threshold_indel.py; its class runs every case, too, and
has to give the same tokens in as many steps. It is loaded without the rest of SGLang.

    tools/upstream/levenshtein.py --sglang joint_threshold_indel.py --out tests/data/levenshtein.json
"""
import argparse
import importlib.util
import json
import math
import sys
import types

BLOCK, TEXT = 8, 18
MASK, DELETE, SPLIT, VOCABULARY = 18, 19, 20, 21
NONE = -1e9  # the mask is never predicted
M64 = (1 << 64) - 1


def mixed(*values):
    h = 0x9E3779B97F4A7C15
    for v in values:
        h = (h ^ (v & M64)) * 0xBF58476D1CE4E5B9 & M64
        h ^= h >> 27
    return h


def logits(seed, block, i):
    """Of position i: some noise, one candidate far above it, and often the token that is there already."""
    left = block[i - 1] if i > 0 else -1
    right = block[i + 1] if i + 1 < len(block) else -1
    h = mixed(seed, i, left, block[i], right)
    row = [(mixed(h, v) % 4096) / 4096 for v in range(VOCABULARY)]
    best = (h >> 8) % VOCABULARY
    if best == MASK or (block[i] != MASK and (h >> 20) % 8 < 4):
        best = block[i] if block[i] != MASK else (h >> 30) % TEXT
    row[best] += 1 + (mixed(h, 99) % 4096) / 1024
    row[MASK] = NONE
    return row


def best_of(row, refused=()):
    return max((v for v in range(VOCABULARY) if v != MASK and v not in refused), key=lambda v: (row[v], -v))


def softmax_of(row, token):
    top = max(row)
    return math.exp(row[token] - top) / sum(math.exp(v - top) for v in row)


def decode_block(seed, block, prompt, threshold, edit, post):
    """The final tokens of the block, the number of steps, and how many cycles were broken."""
    original = [i >= prompt and t == MASK for i, t in enumerate(block)]
    seen, tried, steps, alone, cycles = set(), {}, 0, 0, 0
    while True:
        rows = [logits(seed, block, i) for i in range(BLOCK)]
        token = [best_of(row) for row in rows]
        p = [softmax_of(row, t) for row, t in zip(rows, token)]
        masks = [i for i in range(prompt, BLOCK) if block[i] == MASK]
        left = [i for i in masks if original[i]]
        steps += 1
        alone += not left
        last = (alone >= post if post > 0 else not left) or steps > BLOCK + post
        chosen = masks
        if left and not last:
            need = 1 + len(masks) - len(left)
            chosen = [i for i in masks if p[i] > threshold]
            if len(chosen) < need:
                chosen = sorted(masks, key=lambda i: (-p[i], i))[:need]
            if post == 0 and set(left) <= set(chosen):
                last, chosen = True, masks
        written = {i: token[i] for i in chosen}
        for i in range(prompt, BLOCK):
            if block[i] != MASK and token[i] != block[i] and p[i] > edit:
                written[i] = token[i]
        if not written:
            return block, steps, cycles
        if last:
            written = {i: best_of(rows[i], (DELETE, SPLIT)) if t in (DELETE, SPLIT) else t for i, t in written.items()}
        elif tuple(block) in seen:
            changing = [i for i in sorted(written) if written[i] != block[i]]
            if changing:
                least = min(changing, key=lambda i: (p[i], i))
                written[least] = best_of(rows[least], tried.get(least, set()))
                cycles += 1
        seen.add(tuple(block))
        cells = [(t, False) for t in block[:prompt]]
        for i in range(prompt, BLOCK):
            t = written.get(i, block[i])
            if i in written:
                tried.setdefault(i, set()).add(t)
            if t == SPLIT:
                cells += [(MASK, False), (block[i], original[i])]
            elif t != DELETE:
                cells.append((t, original[i]))
        cells = (cells + [(MASK, False)] * BLOCK)[:BLOCK]
        block, original = [t for t, _ in cells], [o for _, o in cells]
        if last:
            return block, steps, cycles


def sglang_class(path):
    base = types.ModuleType("sglang.srt.dllm.algorithm.base")

    class DllmAlgorithm:
        def __init__(self, config):
            self.block_size, self.mask_id = config.block_size, config.mask_id

    base.DllmAlgorithm = DllmAlgorithm
    names = ("sglang", "sglang.srt", "sglang.srt.dllm", "sglang.srt.dllm.algorithm", "sglang.srt.model_executor")
    for name in names:
        sys.modules[name] = types.ModuleType(name)
    sys.modules[base.__name__] = base
    for name, member in (("sglang.srt.dllm.config", "DllmConfig"),
                         ("sglang.srt.model_executor.forward_batch_info", "ForwardBatch")):
        sys.modules[name] = types.ModuleType(name)
        setattr(sys.modules[name], member, object)
    spec = importlib.util.spec_from_file_location("joint_threshold_indel", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.JointThresholdInDel


def theirs(algorithm, seed, block, prompt, threshold, edit, post):
    import torch
    config = types.SimpleNamespace(
        block_size=BLOCK, mask_id=MASK, delete_token_id=DELETE, split_token_id=SPLIT,
        algorithm_config=dict(threshold=threshold, edit_threshold=edit, max_post_edit_steps=post))
    mask = torch.tensor([[i < prompt for i in range(BLOCK)]])
    batch = types.SimpleNamespace(batch_size=1, input_ids=torch.tensor(block), dllm_prompt_mask=mask)
    decoder = algorithm(config)
    states = decoder.init_step_state(batch)
    while not states[0]["finished"]:
        tokens = batch.input_ids.tolist()
        decoder.step(batch, torch.tensor([logits(seed, tokens, i) for i in range(BLOCK)], dtype=torch.float64), states)
    return batch.input_ids.tolist(), states[0]["num_update_steps"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sglang", help="the file with SGLang's class")
    parser.add_argument("--out", required=True)
    parser.add_argument("--cases", type=int, default=120)
    args = parser.parse_args()
    algorithm = sglang_class(args.sglang) if args.sglang else None
    cases, cycles = [], 0
    for seed in range(args.cases):
        prompt = (0, 3, 7)[seed % 3]
        threshold, edit, post = ((0.5, 0.0, 16), (0.7, 0.5, 4), (0.9, 0.3, 0), (0.4, 0.0, 2))[seed % 4]
        block = [mixed(seed, i, 7) % TEXT for i in range(prompt)] + [MASK] * (BLOCK - prompt)
        tokens, steps, broken = decode_block(seed, block, prompt, threshold, edit, post)
        cycles += broken
        if algorithm and theirs(algorithm, seed, block, prompt, threshold, edit, post) != (tokens, steps):
            sys.exit(f"seed {seed}: SGLang's class gives other tokens or steps")
        cases.append([seed, block[:prompt], threshold, edit, post, tokens, steps])
    with open(args.out, "w", encoding="utf-8") as out:
        lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
        out.write('{"cases":[\n' + lines + "\n]}\n")
    print(f"{len(cases)} cases, {sum(c[-1] for c in cases)} steps, {cycles} cycles broken"
          + (", as SGLang's class" if algorithm else ""))


if __name__ == "__main__":
    main()
