"""The reference sampler: LLaDA's semi-autoregressive generation at temperature 0, and the scores of a model with it.

The canvas is the prompt and `length` masks. Blocks are denoised left to right; every forward sees the whole canvas.
The confidence of a masked position is the softmax probability (f64) of its most likely token. Two schedules:
  steps      each block gets its share of `steps` forwards and each forward commits equally many tokens, the most
             confident masked ones of the block (ties: lowest position);
  threshold  every masked token of the block whose confidence is strictly above it, and always the most confident one.

    python3 tools/train/sample.py MODEL -p 'Sort the numbers from smallest to largest: 5 3 9 1'
    python3 tools/train/sample.py MODEL --score 20 [--threshold 0.9] [--tasks eval/long_public.jsonl --length 384]
"""
import argparse
import json

import torch

import data
import long_tasks
from hf_folder import load_model
from tokenizer import Tokenizer


@torch.no_grad()
def generate(model, tokenizer, prompt, length=128, block_length=32, steps=None, threshold=None, stop=False):
    """prompt: token ids. -> (the `length` answer tokens, commit trace).

    The trace has one list per forward with the [position on the canvas, token] it committed, so its length is the
    number of forwards. stop: end after the block that contains the end-of-turn token; what follows stays masked.
    """
    if model.config.attention_block:
        raise ValueError("block-causal attention: its blocks count from position 0; needed batch_sample.py")
    canvas = torch.tensor([list(prompt) + [tokenizer.mask] * length], device=model.head.weight.device)
    blocks = length // block_length
    steps_per_block = (steps or length) // blocks
    trace = []
    for block in range(blocks):
        low = len(prompt) + block * block_length
        high = low + block_length
        step = 0
        while (canvas[0, low:high] == tokenizer.mask).any():
            count = 1 if threshold is not None else \
                block_length // steps_per_block + (step < block_length % steps_per_block)
            positions, tokens = _commit(model, canvas, low, high, tokenizer.mask, count, threshold)
            canvas[0, positions] = tokens
            trace.append([list(pair) for pair in zip(positions.tolist(), tokens.tolist())])
            step += 1
        if stop and (canvas[0, len(prompt):high] == tokenizer.eot).any():
            break
    return canvas[0, len(prompt):].tolist(), trace


def _commit(model, canvas, low, high, mask, count, threshold):
    """One forward. -> positions (rising) and tokens that it commits in [low, high)."""
    logits = model(canvas, torch.arange(low, high, device=canvas.device))
    confidence, best = logits.double().softmax(-1).max(-1)
    confidence[canvas[0, low:high] != mask] = -1
    order = confidence.sort(descending=True, stable=True).indices
    chosen = torch.zeros_like(confidence, dtype=torch.bool)
    chosen[order[:count]] = True
    if threshold is not None:
        chosen |= confidence > threshold
    chosen &= confidence >= 0  # fewer masks may be left than `count`
    at = chosen.nonzero().flatten()
    return low + at, best[at]


def extract_answer(task, text):
    """The part of a response that is compared with the example's answer; None where the form is wrong."""
    if task in long_tasks.NAMES:
        return long_tasks.extract_answer(task, text)
    text = text.strip()
    if task == "json":
        try:
            return json.dumps(json.loads(text))
        except ValueError:
            return None
    marker = {"gsm-mini": "####", "choice": "Answer:"}.get(task)
    if marker:
        return text.split(marker)[1].strip() if marker in text else None
    return text.split("\n")[-1].strip() if task == "bool" else text


def score(model, tokenizer, examples, **options):
    """-> {task: {n, answers right, whole responses right, mean forwards}}"""
    totals = {}
    for example in examples:
        tokens, trace = generate(model, tokenizer, tokenizer.chat(example.prompt), **options)
        text = tokenizer.decode_answer(tokens)
        row = totals.setdefault(example.task, [0, 0, 0, 0])
        row[0] += 1
        row[1] += extract_answer(example.task, text) == example.answer
        row[2] += text == example.response
        row[3] += len(trace)
    return {task: {"n": n, "answer_percent": 100 * right / n, "response_percent": 100 * whole / n, "forwards": nfe / n}
            for task, (n, right, whole, nfe) in totals.items()}


def main():
    parser = argparse.ArgumentParser(description="LLaDA's sampler, for reading and for reference")
    parser.add_argument("model", help="folder with config.json, model.safetensors and tokenizer.json")
    parser.add_argument("-p", "--prompt")
    parser.add_argument("--score", type=int, metavar="N", help="score the first N examples of each task")
    parser.add_argument("--tasks", default=data.EVAL_FILE, metavar="FILE", help="what is scored")
    parser.add_argument("--length", type=int, default=128, help="tokens that an answer may have")
    parser.add_argument("--threshold", type=float, help="default: one token per step")
    args = parser.parse_args()
    model, tokenizer = load_model(args.model), Tokenizer(args.model)
    options = dict(length=args.length, threshold=args.threshold, stop=True)
    if args.prompt:
        tokens, trace = generate(model, tokenizer, tokenizer.chat(args.prompt), **options)
        print(f"{tokenizer.decode_answer(tokens)}\n[{len(trace)} forwards]")
    if args.score:
        examples = data.read_examples(args.tasks, args.score)
        for task, row in score(model, tokenizer, examples, **options).items():
            print(task, json.dumps(row))


if __name__ == "__main__":
    main()
