#!/usr/bin/env python3
"""Canvases of random tokens as DiffusionGemma's class in the public package transformers (5.24 and newer) decides them.

Writes tests/data/uniform_canvas.json. The class's own denoising step, sampler and stopping rule run on logits and draws
that tests/decode/uniform_test.cc makes alike: functions of base/random.h's numbers. Recorded of every step: what the
canvas held, the best tokens, those that were drawn, which of them were accepted, the entropies.

    tools/upstream/uniform_canvas.py [--out tests/data/uniform_canvas.json]
"""
import argparse
import json
import pathlib
import types

import numpy as np
import torch
from transformers.models.diffusion_gemma import generation_diffusion_gemma as gemma

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEP, MASK = 0x9E3779B97F4A7C15, 2**64 - 1
TOKEN_DRAW, RANDOM_TOKEN = 0xFFFFFFFF, 0xFFFFFFFE


def mix64(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def uniform(seed, forward, position, token):
    key = mix64((seed + STEP) & MASK)
    key = mix64((key + (forward + 1) * STEP) & MASK)
    key = mix64((key + (position + 1) * STEP) & MASK)
    return ((mix64((key + (token + 1) * STEP) & MASK) >> 12) + 0.5) * 2.0**-52


def target(position, vocab):
    return mix64(position + 77) % vocab


def logits_of(case, forward, step, positions, fed):
    """The model: it knows its answer better with every step, and better where it is told right."""
    rows = []
    for position, token in zip(positions, fed):
        wanted = target(position, case["vocab"])
        pull = case["pull"] * (step + 1) + (2 if token == wanted else 0)
        rows.append([4 * uniform(99, forward, position, v) + (pull if v == wanted else 0) for v in range(case["vocab"])])
    return torch.tensor(np.array(rows), dtype=torch.float32)[None]


def run(case):
    vocab, length = case["vocab"], case["length"]
    sampler = gemma.EntropyBoundSampler(gemma.EntropyBoundSamplerConfig(entropy_bound=case["entropy_bound"]), length, vocab,
                                        case["steps"])
    processor = gemma.LogitsProcessorList([gemma.LinearTemperatureScheduleLogitsProcessor(
        t_min=case["t_min"], t_max=case["t_max"], max_denoising_steps=case["steps"])])
    stopping = gemma.StableAndConfidentStoppingCriteria(case["stability_threshold"], case["confidence_threshold"])
    forward, begin, steps, committed = 0, case["prompt"], [], []
    state = dict(forward=0, begin=begin)
    sampler.initialize_canvas = lambda batch_size, device: torch.tensor(
        [[min(vocab - 1, int(uniform(case["seed"], state["forward"], state["begin"] + i, RANDOM_TOKEN) * vocab))
          for i in range(length)]])

    def multinomial(probabilities, num_samples):
        sums = probabilities.double().cumsum(-1)
        draws = torch.tensor([[uniform(case["seed"], state["forward"], state["begin"] + i, TOKEN_DRAW)] for i in range(length)],
                             dtype=torch.float64)
        state["drawn"] = (sums <= draws * sums[:, -1:]).sum(-1, keepdim=True)
        state["forward"] += 1  # what is drawn from here on is for the next forward
        return state["drawn"]

    entropy = torch.distributions.Categorical.entropy

    def recorded_entropy(self):
        state["entropy"] = entropy(self)
        return state["entropy"]

    fake = types.SimpleNamespace(
        config=types.SimpleNamespace(text_config=types.SimpleNamespace(vocab_size=vocab)),
        model=types.SimpleNamespace(decoder=types.SimpleNamespace(embed_tokens=types.SimpleNamespace(weight=torch.zeros(1)))))
    own = torch.multinomial
    torch.multinomial, torch.distributions.Categorical.entropy = multinomial, recorded_entropy
    try:
        for _ in range(case["canvases"]):
            stopping.reset()
            positions = range(state["begin"], state["begin"] + length)
            current = best = sampler.initialize_canvas(1, None)
            told, finished = None, torch.zeros(1, dtype=torch.bool)
            for left in range(case["steps"], 0, -1):
                fed = current[0].tolist()
                step = case["steps"] - left
                decoder = lambda **_: types.SimpleNamespace(logits=logits_of(case, state["forward"], step, positions, fed))
                current, best, told, finished = gemma.DiffusionGemmaGenerationMixin._denoising_step(
                    fake, decoder_forward=decoder, current_canvas=current, argmax_canvas=best, input_ids=None,
                    decoder_position_ids=None, self_conditioning_logits=told, mask_mapping={}, cache=None,
                    finished_denoising=finished, cur_step=left, sampler=sampler, logits_processor=processor,
                    diffusion_stopping_criteria=stopping)
                steps.append(dict(fed=fed, best=best[0].tolist(), drawn=state["drawn"][:, 0].tolist(),
                                  accepted=sampler.accepted_token_mask[0].int().tolist(),
                                  entropy=[round(x, 5) for x in state["entropy"][0].tolist()]))
                if finished.all():
                    break
            committed.append(best[0].tolist())
            state["begin"] += length
    finally:
        torch.multinomial, torch.distributions.Categorical.entropy = own, entropy
    return dict(case, rows=steps, committed=committed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "tests/data/uniform_canvas.json")
    args = parser.parse_args()
    torch.set_num_threads(1)
    usual = dict(vocab=40, length=12, canvases=3, prompt=5, steps=14, t_min=0.4, t_max=0.8, entropy_bound=0.1,
                 stability_threshold=1, confidence_threshold=0.005, seed=7, pull=1.5)
    cases = [usual, dict(usual, seed=8, stability_threshold=7), dict(usual, seed=9, stability_threshold=0, canvases=2),
             dict(usual, seed=10, pull=0.6, steps=6, entropy_bound=1.5), dict(usual, seed=11, steps=1, canvases=2),
             dict(usual, seed=12, t_min=0.1, t_max=3.0, confidence_threshold=0.05, length=30, canvases=1)]
    args.out.write_text("[\n" + ",\n".join(json.dumps(run(case)) for case in cases) + "\n]\n")


if __name__ == "__main__":
    main()
