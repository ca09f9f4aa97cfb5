"""Writes a finished model as a folder: model.safetensors (bf16), config.json, the tokenizer's two files and
golden.json, what the reference arithmetic and sampler make of it, for tests of other engines.
"""
import argparse
import json
import pathlib
import shutil

import torch

import data
import long_tasks
from hf_folder import config_json, load_model, save_weights
from sample import generate
from tokenizer import Tokenizer

GOLDEN_TASKS = ("gsm-mini", "bool", "choice", "json")
LONG_GOLDEN_TASKS = ("story", "records", "rewrite", "count")
GOLDEN_LENGTH, LONG_GOLDEN_LENGTH, GOLDEN_BLOCK, GOLDEN_TOP = 128, 384, 32, 20
DEFINITION = (
    "Blocks left to right; each forward sees the whole canvas. Confidence = softmax probability (f64) of the most "
    "likely token. steps: each block gets steps / (gen_length / block_length) forwards, the most confident masked "
    "tokens of the block are committed (ties: lowest position). thr: every masked token of the block with confidence "
    "> thr is committed, and always the most confident one. trace: per forward the [position, token] committed.")
ARITHMETIC = "weights as stored (bf16) widened to f32, all computation f32, confidence f64"


def golden_item(model, tokenizer, example, length):
    """One prompt: full logits of the first forward at five positions, the best of every masked position, and one
    generation per setting."""
    prompt = tokenizer.chat(example.prompt)
    canvas = prompt + [tokenizer.mask] * length
    start = len(prompt)
    with torch.no_grad():
        logits = model(torch.tensor([canvas]))[0]
    top, ids = logits[start:].topk(GOLDEN_TOP, -1)
    positions = (0, start - 1, start, start + 40, start + length - 1)
    item = dict(
        task=example.task, prompt=example.prompt, response=example.response, prompt_len=start, gen_length=length,
        canvas=canvas,
        logits=[dict(pos=p, values=[round(v, 6) for v in logits[p].tolist()]) for p in positions],
        top20=[dict(pos=start + i, ids=ids[i].tolist(), logits=[round(v, 5) for v in top[i].tolist()])
               for i in range(length)])
    for name, setting in {"one_token_per_step": dict(steps=length), "threshold_0.9": dict(threshold=0.9)}.items():
        tokens, trace = generate(model, tokenizer, prompt, length, GOLDEN_BLOCK, **setting)
        recorded = {{"threshold": "thr"}.get(key, key): value for key, value in setting.items()}
        item[name] = dict(block_length=GOLDEN_BLOCK, **recorded, nfe=len(trace), tokens=tokens,
                          text=tokenizer.decode_answer(tokens), trace=trace)
    return item


def write_golden(folder, examples=data.EVAL_FILE, tasks=GOLDEN_TASKS, length=GOLDEN_LENGTH):
    """golden.json from the folder's weights as stored, so that it holds for the file, not for an unrounded model in
    memory; of each task the file's first example."""
    stored, tokenizer = load_model(folder), Tokenizer(folder)
    first = {example.task: example for example in reversed(data.read_examples(examples))}
    items = [golden_item(stored, tokenizer, first[task], length) for task in tasks]
    text = json.dumps(dict(definition=DEFINITION, arithmetic=ARITHMETIC, items=items))
    (pathlib.Path(folder) / "golden.json").write_text(text)


def export(model, tokenizer_folder, folder):
    """Writes the folder."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(pathlib.Path(tokenizer_folder) / name, folder / name)
    (folder / "config.json").write_text(json.dumps(config_json(model.config), indent=1))
    save_weights(folder / "model.safetensors", model)
    write_golden(folder)


def main():
    """For weights that another machine trained: puts the parts together and writes golden.json beside them."""
    parser = argparse.ArgumentParser(description="golden.json of tiny-llada-long")
    parser.add_argument("folder", type=pathlib.Path, help="config.json, tokenizer files, model.safetensors or its parts")
    folder = parser.parse_args().folder
    parts = sorted(folder.glob("model.safetensors.part-*"))
    if parts:
        (folder / "model.safetensors").write_bytes(b"".join(part.read_bytes() for part in parts))
        for part in parts:
            part.unlink()
    write_golden(folder, long_tasks.EVAL_FILE, LONG_GOLDEN_TASKS, LONG_GOLDEN_LENGTH)


if __name__ == "__main__":
    main()
