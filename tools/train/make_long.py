#!/usr/bin/env python3
"""Trains tiny-llada-long, the model with long answers, from finished dense weights on one GPU. See README.md.

    python3 tools/train/make_long.py --from models/tiny-llada --out DIR --minutes 16 --workers 12

DIR gets, every two minutes and at the end, config.json, the tokenizer's files and model.safetensors (in parts of 15 MiB
where it is larger: cat model.safetensors.part-* > model.safetensors), scores.json, and the checkpoint from which the same
command goes on.
"""
import argparse
import contextlib
import dataclasses
import json
import pathlib
import signal
import time

import torch
from torch import _dynamo
from torch.nn import functional as F

import data
import long_tasks
from batch_sample import score_batch
from canvases import mix_seed
from grow import grow
from hf_folder import config_json, load_model, save_weights
from long_canvases import CanvasStore, Kinds, Shards
from optimizers import Average, make_optimizers
from tokenizer import Tokenizer
from train import pick_device

STARTED = time.monotonic()
# (end as a share of the budget, masks). First mostly the texts themselves, then what the sampler sees.
PHASES = [(0.4, Kinds(suffix=0.25, block=0.25, full=0.2)), (1.0, Kinds(suffix=0.3, block=0.55, full=0.4))]
WARMUP_STEPS, DECAY_SHARE, CLIP, AVERAGE = 100, 0.55, 1.0, 0.995
SHARD, PART_BYTES = 2000, 15 << 20
SAVE_SECONDS, LOG_SECONDS = 120, 10


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--from", dest="start", type=pathlib.Path, required=True, metavar="MODEL",
                        help="finished dense weights, which are grown")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--minutes", type=float, default=16, help="all of it: data, training, scores, export")
    parser.add_argument("--final-seconds", type=float, default=70, help="of these, kept for the last scores")
    parser.add_argument("--workers", type=int, default=12, help="processes that make examples")
    parser.add_argument("--examples", type=int, default=1_200_000)
    parser.add_argument("--first-examples", type=int, default=40_000, help="training begins when so many are there")
    parser.add_argument("--batch-tokens", type=int, default=131072)
    parser.add_argument("--lr", type=float, default=4e-3, help="learning rate of Muon, twice that of AdamW")
    parser.add_argument("--score-seconds", type=float, default=150, help="between scores with threshold 0.9")
    parser.add_argument("--score", type=int, default=32, help="held-out examples of each task in these scores")
    parser.add_argument("--final-score", type=int, default=100, help="examples of each task in the last scores")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    return parser.parse_args()


class LongTrainer:
    def __init__(self, args):
        self.args, self.before = args, 0.0
        self.shards = Shards(args.start, args.seed + 1, -(-args.examples // SHARD), min(SHARD, args.examples), args.workers)
        self.waiting, self.stopped = [], False
        self.device, self.tokenizer = pick_device(args.device), Tokenizer(args.start)
        self.held_out = data.read_examples(long_tasks.TUNING_FILE, args.score)
        self.public = data.read_examples(long_tasks.EVAL_FILE, args.final_score)
        self.short = data.read_examples(per_task=args.score)
        self.checkpoint = args.out / "long.checkpoint"
        model = grow(load_model(args.start), seed=args.seed)
        self.model = model.to(self.device).train()
        self.average = Average(self.model, AVERAGE)
        self.optimizers = make_optimizers(self.model, args.lr, use_muon=True, bf16=self.on_gpu)
        self.store = CanvasStore(self.tokenizer, self.device)
        self.step = self.tokens = 0
        self.recent, self.scores = [], {}
        if self.checkpoint.exists():
            self._load()
        size = sum(parameter.numel() for parameter in model.parameters())
        self.log(f"{size:,} parameters on {self.device}, PyTorch {torch.__version__}, {dataclasses.asdict(model.config)}")
        if self.on_gpu and not args.eager:
            torch.set_float32_matmul_precision("high")
            _dynamo.config.suppress_errors = True  # a block that does not compile runs as it is
            for name in ("recompile_limit", "cache_size_limit"):
                if hasattr(_dynamo.config, name):
                    setattr(_dynamo.config, name, 64)
            for block in self.model.blocks:  # one block's code serves all; a shape of canvas compiles once
                block.compile(dynamic=False)

    @property
    def on_gpu(self):
        return self.device.startswith("cuda")

    def seconds(self):
        return self.before + time.monotonic() - STARTED

    def log(self, text):
        print(f"{self.seconds():7.1f} s  {text}", flush=True)

    def run(self):
        budget = self.args.minutes * 60 - self.args.final_seconds
        logged = saved = scored = time.monotonic()
        logged_tokens, first = self.tokens, True
        while self.seconds() < budget and not self.stopped:
            if self.shards.left or self.waiting:
                self._take_examples()
            self._train_step(min(1.0, self.seconds() / budget))
            now = time.monotonic()
            if first or now - logged > LOG_SECONDS:
                if self.on_gpu:
                    torch.cuda.synchronize()
                now = time.monotonic()
                speed = (self.tokens - logged_tokens) / (now - logged)
                losses = {name: torch.stack([loss for kind, loss in self.recent if kind == name]).mean().item()
                          for name in sorted({kind for kind, _ in self.recent})}
                text = " ".join(f"loss/{name} {loss:.4f}" for name, loss in losses.items())
                self.log(f"step {self.step}  {text}  tokens {self.tokens / 1e6:.1f}M  {speed:.0f} tokens/s  "
                         f"lr x{self._lr_factor(self.seconds() / budget):.3f}  examples {len(self.store)}")
                self.recent, logged, logged_tokens, first = [], now, self.tokens, False
            if now - saved > SAVE_SECONDS:
                self._save()
                self.export()
                saved = time.monotonic()
            if now - scored > self.args.score_seconds:
                self._score(self.held_out, "held out", threshold=0.9)
                scored = time.monotonic()
        self._save()
        self.export()
        self.log(f"trained: {self.step} steps, {self.tokens / 1e6:.1f}M tokens")
        self._score(self.public, "public", threshold=0.9)
        self._score(self.public, "public")
        self._score(self.short, "short", threshold=0.9, length=128)
        self.log("done")

    def _take_examples(self):
        """Adds what the workers have finished: at once what training begins with, then a twentieth at a time."""
        first = len(self.store) == 0
        needed = min(self.args.first_examples, self.args.examples) if first else self.args.examples // 20
        while True:
            self.waiting += self.shards.take()
            enough = sum(len(table) for _, table in self.waiting) >= needed or not self.shards.left
            if enough or not first:
                break
            time.sleep(0.05)
        if enough:
            self.store.add(self.waiting)
            self.log(f"{len(self.store)} examples, {len(self.store.tokens) / 1e6:.0f}M tokens")
            self.waiting = []

    def stop(self, *_):
        """A signal's handler: the last weights are scored and written."""
        self.stopped = True

    def _lr_factor(self, progress):
        return min(1.0, (self.step + 1) / WARMUP_STEPS) * max(0.01, min(1.0, (1 - progress) / DECAY_SHARE))

    def _train_step(self, progress):
        phase = next(i for i, (end, _) in enumerate(PHASES) if progress <= end)
        batch = self.store.batch(mix_seed(self.args.seed, self.step, 3), self.args.batch_tokens, PHASES[phase][1])
        with self._autocast():
            logits = self.model(batch.inputs, batch.rows)
        loss = (F.cross_entropy(logits.float(), batch.targets, reduction="none") * batch.weights).sum()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group.setdefault("full_lr", group["lr"]) * self._lr_factor(progress)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.average.update(self.model)
        self.step += 1
        self.tokens += batch.inputs.numel()
        self.recent.append((f"phase{phase + 1}", loss.detach()))

    def _autocast(self):
        return torch.autocast("cuda", torch.bfloat16) if self.on_gpu else contextlib.nullcontext()

    def _score(self, examples, name, **options):
        if not examples:
            return
        began = time.monotonic()
        with self._autocast():
            totals, texts = score_batch(self.average.model, self.tokenizer, examples, **options)
        schedule = f"threshold {options['threshold']}" if "threshold" in options else "one token per step"
        for task, (n, right, whole, forwards) in totals.items():
            self.log(f"score, {name}, {schedule}: {task} answers {100 * right / n:.1f} % whole {100 * whole / n:.1f} % "
                     f"forwards {forwards / n:.1f} (n {n})")
        mean = sum(right / n for n, right, *_ in totals.values()) / len(totals)
        self.log(f"score, {name}, {schedule}: mean {100 * mean:.1f} %, took {time.monotonic() - began:.1f} s")
        self.scores[f"{name}, {schedule}"] = dict(step=self.step, seconds=self.seconds(), tasks=totals)
        (self.args.out / "scores.json").write_text(json.dumps(self.scores, indent=1))
        wrong = [dict(task=e.task, prompt=e.prompt, response=e.response, written=text)
                 for e, text in zip(examples, texts) if text != e.response]
        (self.args.out / "wrong.jsonl").write_text("".join(json.dumps(record) + "\n" for record in wrong[:400]))

    def export(self):
        """config.json, the tokenizer and the averaged weights, in parts that are small enough to be carried."""
        for name in ("tokenizer.json", "tokenizer_config.json"):
            text = (self.args.start / name).read_text(encoding="utf-8")
            context = self.model.config.context
            (self.args.out / name).write_text(text.replace('"model_max_length": 256', f'"model_max_length": {context}'),
                                              encoding="utf-8")
        (self.args.out / "config.json").write_text(json.dumps(config_json(self.model.config), indent=1))
        weights, partial = self.args.out / "model.safetensors", self.args.out / "model.partial"
        save_weights(partial, self.average.model)
        partial.replace(weights)
        stored = weights.read_bytes()
        if len(stored) > PART_BYTES:
            for i, begin in enumerate(range(0, len(stored), PART_BYTES)):
                (self.args.out / f"model.safetensors.part-{i}").write_bytes(stored[begin:begin + PART_BYTES])

    # ------------------------------------------------------------ checkpoints

    def _save(self):
        if not all(torch.isfinite(loss) for _, loss in self.recent[-1:]):
            raise ValueError("the loss is not finite; the last checkpoint is kept")
        state = dict(step=self.step, tokens=self.tokens, seconds=self.seconds(), model=self.model.state_dict(),
                     average=self.average.model.state_dict(), average_steps=self.average.steps,
                     optimizers=[optimizer.state_dict() for optimizer in self.optimizers])
        partial = self.checkpoint.with_suffix(".partial")
        torch.save(state, partial)
        partial.replace(self.checkpoint)
        self.log(f"saved at step {self.step}")

    def _load(self):
        state = torch.load(self.checkpoint, map_location=self.device)
        self.model.load_state_dict(state["model"])
        self.average.model.load_state_dict(state["average"])
        self.average.steps, self.step, self.tokens, self.before = (
            state[key] for key in ("average_steps", "step", "tokens", "seconds"))
        for optimizer, saved in zip(self.optimizers, state["optimizers"]):
            optimizer.load_state_dict(saved)
        self.log(f"resuming at step {self.step}")


def main():
    args = parse_arguments()
    torch.manual_seed(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    trainer = LongTrainer(args)
    signal.signal(signal.SIGTERM, trainer.stop)
    trainer.run()


if __name__ == "__main__":
    main()
