#!/usr/bin/env python3
"""Trains tiny-llada-long, the model with long answers, or (--tasks asked) one that decides and calls functions beside the
short tasks, from finished dense weights, on a GPU or a CPU. See README.md.

    python3 tools/train/make_long.py --from models/tiny-llada --out DIR --minutes 16 --workers 12    on a GPU
    python3 tools/train/make_long.py --from models/tiny-llada --out DIR --tokens 40 --bf16           on a CPU

DIR gets, every few minutes and at the end, config.json, the tokenizer's files and model.safetensors (in parts of 15 MiB
where it is larger: cat model.safetensors.part-* > model.safetensors), scores.jsonl, and the checkpoint from which the
same command goes on.
"""
import argparse
import concurrent.futures
import contextlib
import copy
import dataclasses
import json
import pathlib
import signal
import threading
import time
from typing import NamedTuple

import torch
from torch import _dynamo
from torch.nn import functional as F

import asked_tasks
import data
import long_tasks
from batch_sample import score_batch
from grow import LAYERS, grow
from hf_folder import config_json, load_model, save_weights
from long_canvases import CPU_LENGTHS, DECISIVE_GAIN, GPU_LENGTHS, CanvasStore, Kinds, Shards, shard_of
from long_tasks import EVALUATED, Limits
from model import HOP_LAYERS, LOOKUP_LAYERS
from optimizers import Average, make_optimizers
from packed_canvases import PackedStore
from tokenizer import Tokenizer
from train import LOOKUP_WEIGHT, pick_device

STARTED = time.monotonic()


class Stage(NamedTuple):
    until: float  # share of the budget
    limits: Limits  # of its examples; None: those of asked_tasks.py
    kinds: Kinds  # of its masks


# Short examples first: their canvases cost a third, and what they teach holds for long ones.
STAGES = [Stage(0.1, Limits(0, 128, 160), Kinds(suffix=0.3, block=0.15, decisive=0.3, full=0.05)),
          Stage(0.3, Limits(40, 224, 288), Kinds(suffix=0.35, block=0.2, decisive=0.25, full=0.05)),
          Stage(1.0, EVALUATED, Kinds(suffix=0.25, block=0.5, decisive=0.05, full=0.2))]
ASKED_STAGES = [Stage(1.0, None, Kinds(suffix=0.25, block=0.5, decisive=0.05, full=0.2))]
DECAY_SHARE, CLIP, AVERAGE = 0.4, 1.0, 0.995
SHARD, PART_BYTES = 500, 15 << 20
# On a GPU so many places of guided attention are drawn for a step, out of so many canvases: a compiled block sees one
# shape, and the processor that looks for them keeps up.
GUIDES, GUIDED_CANVASES = 4096, 128
SAVE_SECONDS, LOG_SECONDS = 180, 30


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--from", dest="start", type=pathlib.Path, required=True, metavar="MODEL",
                        help="finished dense weights, which are grown")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--minutes", type=float, default=16, help="all of it: data, training, scores, export")
    parser.add_argument("--tokens", type=float, help="the budget in millions of positions, in place of --minutes")
    parser.add_argument("--final-seconds", type=float, default=70, help="of the minutes, kept for the last scores")
    parser.add_argument("--workers", type=int, default=1, help="processes that make examples")
    parser.add_argument("--examples", type=int, default=40_000, help="for each of the three stages")
    parser.add_argument("--batch-tokens", type=int, help="positions of a batch (131072 on a GPU, 6144 on a CPU)")
    parser.add_argument("--lr", type=float, help="rate of Muon, twice that of AdamW (0.004 on a GPU, else 0.002)")
    parser.add_argument("--warm-up", type=int, default=50, metavar="STEPS", help="in which the rate rises")
    parser.add_argument("--bf16", action="store_true", help="bf16 products on a CPU that has them")
    parser.add_argument("--threads", type=int, default=1, help="on a CPU: threads that each take parts of a batch")
    parser.add_argument("--parts", type=int, default=4, help="of a batch on a CPU")
    parser.add_argument("--same-size", action="store_true", help="do not grow the model: six layers cost two thirds")
    parser.add_argument("--attention-block", type=int, metavar="N",
                        help="train LLaDA2's block-causal attention over blocks of N (32; another N is given to llada, "
                             "too), with --packed 1; 0: full (as --from has it)")
    parser.add_argument("--tasks", choices=("long", "asked"), default="long", help="which examples: with asked, one stage")
    parser.add_argument("--causal", type=float, default=0, metavar="SHARE",
                        help="of the canvases of a block-causal model: read causally, for its self-speculation")
    parser.add_argument("--first-stage", type=int, default=1, choices=range(1, len(STAGES) + 1),
                        help="for weights that are past the short examples")
    parser.add_argument("--packed", type=float, default=0, metavar="SHARE",
                        help="of the parts of a batch: canvases with many cuts of one answer (packed_canvases.py)")
    parser.add_argument("--mix", default="", metavar="TASK=FACTOR,...", help="more or less of some tasks")
    parser.add_argument("--no-guides", dest="guides", action="store_false", help="without the loss of guided attention")
    parser.add_argument("--word-seconds", type=float, default=200,
                        help="of computing, between accuracies of held-out decisive words")
    parser.add_argument("--score-seconds", type=float, default=150,
                        help="of computing, between scores with threshold 0.9")
    parser.add_argument("--score", type=int, default=32, help="held-out examples of each task in these scores")
    parser.add_argument("--final-score", type=int, default=100, help="examples of each task in the last scores")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    return parser.parse_args()


class LongTrainer:
    def __init__(self, args):
        self.args, self.before = args, 0.0
        self.stages = STAGES if args.tasks == "long" else ASKED_STAGES
        self.checkpoint = args.out / "long.checkpoint"
        state = torch.load(self.checkpoint, map_location="cpu") if self.checkpoint.exists() else {}
        self.step, self.tokens, self.before = (state.get(key, 0) for key in ("step", "tokens", "seconds"))
        self.stage = self._stage(self._progress())
        self.stopped = False
        self.device, self.tokenizer = pick_device(args.device), Tokenizer(args.start)
        if args.tasks == "long":
            self.held_out = data.read_examples(long_tasks.TUNING_FILE)
            self.public = data.read_examples(long_tasks.EVAL_FILE, args.final_score)
            self.short = data.read_examples(per_task=args.score)
        else:
            self.held_out, self.public, self.short = asked_tasks.tuning_examples(40), [], []
        model = load_model(args.start)
        block = model.config.attention_block if args.attention_block is None else args.attention_block
        if block and args.packed < 1:
            raise SystemExit("block-causal attention needs --packed 1: plain canvases have masks in earlier blocks")
        if state and state.get("attention_block", 0) != block:
            raise SystemExit(
                f"{self.checkpoint}: its attention block is {state.get('attention_block', 0)}, needed {block}")
        layers, width = (range(model.config.layers), model.config.ffn_width) if args.same_size else (LAYERS, 1024)
        # The guided heads stay in the layers in which they were trained.
        self.guided = {kind: [list(layers).index(i) for i in of] for kind, of in
                       (("hops", HOP_LAYERS), ("lookups", LOOKUP_LAYERS))}
        self.model = grow(model, tuple(layers), width, seed=args.seed,
                          attention_block=block).to(self.device).train()
        self.average = Average(self.model, AVERAGE)
        self.batch_tokens = args.batch_tokens or (131072 if self.on_gpu else 6144)
        self.optimizers = make_optimizers(self.model, args.lr or (4e-3 if self.on_gpu else 2e-3), use_muon=True,
                                          bf16=self.on_gpu or args.bf16)
        self._enter_stage()
        self.recent, self.recent_guides = [], []
        self.threads_own, self.local = args.threads > 1, threading.local()
        self.pool = concurrent.futures.ThreadPoolExecutor(args.threads) if self.threads_own else None
        if state:
            self._restore(state)
        size = sum(parameter.numel() for parameter in self.model.parameters())
        self.log(f"{size:,} parameters on {self.device}, PyTorch {torch.__version__}, "
                 f"{dataclasses.asdict(self.model.config)}")
        if self.on_gpu and not args.eager:
            torch.set_float32_matmul_precision("high")
            _dynamo.config.suppress_errors = True  # a block that does not compile runs as it is
            for name in ("recompile_limit", "cache_size_limit"):
                if hasattr(_dynamo.config, name):
                    setattr(_dynamo.config, name, 64)
            for block in self.model.blocks:  # one block's code serves all; a shape of canvas compiles once
                block.compile(dynamic=False)

    def _enter_stage(self):
        """Workers begin with its examples; a resumed run draws others."""
        args, limits = self.args, self.stages[self.stage].limits
        factors = (part.partition("=") for part in args.mix.split(",") if part)
        shares = {task: float(factor) for task, _, factor in factors}
        size, seed = min(SHARD, args.examples), (args.seed * 1009 + self.step) * 100003
        jobs = [(seed + i, size, args.start, limits, shares) for i in range(-(-args.examples // size))]
        self.shards = Shards(jobs, args.workers)
        self.store = CanvasStore(self.tokenizer, self.device, GPU_LENGTHS if self.on_gpu else CPU_LENGTHS,
                                 self._longest(), args.seed + self.step, GUIDED_CANVASES if self.on_gpu else None)
        self.packed = PackedStore(self.store, args.seed + self.step, self.model.config.attention_block, args.causal)
        self.words = None  # the batches of _score_words()

    @property
    def on_gpu(self):
        return self.device.startswith("cuda")

    def seconds(self):
        return self.before + time.monotonic() - STARTED

    def log(self, text):
        print(f"{self.seconds():7.1f} s  {text}", flush=True)

    def _progress(self):
        """Share of the budget that is used up."""
        if self.args.tokens:
            return self.tokens / (self.args.tokens * 1e6)
        return self.seconds() / (self.args.minutes * 60 - self.args.final_seconds)

    def _stage(self, progress):
        reached = next((i for i, stage in enumerate(self.stages) if progress < stage.until), len(self.stages) - 1)
        return min(max(reached, self.args.first_stage - 1), len(self.stages) - 1)

    def run(self):
        logged = saved = time.monotonic()
        # Beside other work a CPU may get a tenth of the time: scores are then to cost their share of it, no more.
        clock = time.monotonic if self.on_gpu else time.process_time
        told = scored = clock()
        logged_tokens = self.tokens
        while self._progress() < 1 and not self.stopped:
            self._take_examples()
            self._train_step(self._progress())
            now = time.monotonic()
            if now - logged > LOG_SECONDS:
                self._log_line((self.tokens - logged_tokens) / (now - logged))
                logged, logged_tokens = now, self.tokens
            if now - saved > SAVE_SECONDS:
                self._save()
                self.export()
                saved = time.monotonic()
            if clock() - told > self.args.word_seconds:
                self._score_words()
                told = clock()
            if clock() - scored > self.args.score_seconds:
                self._score(self._fitting(self.held_out, self.args.score), "held out", threshold=0.9,
                            length=self._longest(), tail=64)
                scored = clock()
        self._save()
        self.export()
        self.log(f"trained: {self.step} steps, {self.tokens / 1e6:.1f}M tokens")
        if self._progress() >= 1:
            self._score(self.public, "public", threshold=0.9)
            self._score(self.public, "public")
            self._score(self.short, "short", threshold=0.9, length=128)
        self.log("done")

    def _log_line(self, speed):
        losses = torch.tensor([loss for loss, _ in self.recent]).mean().item()
        shares = torch.tensor([share for _, share in self.recent]).mean().item()
        found = torch.tensor(self.recent_guides).mean().item()
        self.log(f"step {self.step}  stage {self.stage + 1}  loss {losses:.4f}  decisive {100 * shares:.0f} %  "
                 f"guides {found:.4f}  tokens {self.tokens / 1e6:.2f}M  {speed:.0f} tokens/s  "
                 f"lr x{self._lr_factor(self._progress()):.3f}  examples {len(self.store)}")
        self.recent, self.recent_guides = [], []

    def _longest(self):
        """Tokens of an answer."""
        limits = self.stages[self.stage].limits
        return limits.high if limits else 128

    def _fitting(self, examples, per_task):
        """The first ones of each task that the present stage could have."""
        limits, kept = self.stages[self.stage].limits, {}
        for example in examples:
            if not limits or (len(self.tokenizer.encode(example.response)) < limits.high
                              and len(self.tokenizer.chat(example.prompt)) <= limits.prompt):
                kept.setdefault(example.task, []).append(example)
        return [example for found in kept.values() for example in found[:per_task]]

    def _take_examples(self):
        """Enters the next stage when it is time; adds what the workers have finished."""
        if self._stage(self._progress()) > self.stage:
            self.stage += 1
            self.log(f"stage {self.stage + 1}: {self.stages[self.stage]}")
            self._enter_stage()
        while self.shards.left:
            if shards := self.shards.take():
                self.store.add(shards)
            if len(self.store):
                break
            time.sleep(0.05)

    def stop(self, *_):
        """A signal's handler: the last weights are scored and written."""
        self.stopped = True

    def _lr_factor(self, progress):
        return min(1.0, (self.step + 1) / self.args.warm_up) * max(0.01, self._falling(progress))

    @staticmethod
    def _falling(progress):
        return min(1.0, (1 - progress) / DECAY_SHARE)

    def _train_step(self, progress):
        """On a CPU the batch is cut into parts, which threads take in turn: none waits for another within a layer."""
        parts = 1 if self.on_gpu else self.args.parts
        size, kinds, guided = self.batch_tokens // parts, self.stages[self.stage].kinds, self.args.guides
        # A weight that depends on the token makes the model too sure of such tokens. Rules that compare confidences need
        # true ones, so the gain goes with the rate.
        self.store.gain = 1 + (DECISIVE_GAIN - 1) * self._falling(progress)
        packed = self.store.rng.random(parts) < self.args.packed
        batches = [self.packed.batch(size, guided) if many else self.store.batch(size, kinds, guided) for many in packed]
        weights = sum(batch.answers for batch in batches)
        if self.pool:
            list(self.pool.map(self._gradients, batches, [batch.answers / weights for batch in batches]))
        else:
            for batch in batches:
                self._gradients(batch, batch.answers / weights)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        if self.threads_own:  # of this thread, which has the processor for itself now
            torch.set_num_threads(self.args.threads)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group.setdefault("full_lr", group["lr"]) * self._lr_factor(progress)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.average.update(self.model)
        self.step += 1
        self.tokens += sum(batch.inputs.numel() for batch in batches)

    def _gradients(self, batch, share):
        """Adds those of a batch's loss, times its share of the step. Each thread has modules of its own around the same
        weights."""
        if self.threads_own and not hasattr(self.local, "model"):
            torch.set_num_threads(1)
            shared = {id(parameter): parameter for parameter in self.model.parameters()}
            self.local.model = copy.deepcopy(self.model, shared)
        model = self.local.model if self.threads_own else self.model
        guided = self.args.guides and len(batch.lookups) > 0 and len(batch.hops) > 0
        drawn = {kind: self._drawn(getattr(batch, kind)) for kind in self.guided} if guided else {}
        guide = {i: drawn[kind] for kind, layers in self.guided.items() for i in layers} if guided else {}
        with self._autocast():
            logits = model(batch.inputs, batch.rows, guide, batch.positions, batch.visible)
        losses = F.cross_entropy(logits.float(), batch.targets, reduction="none") * batch.weights
        loss = total = losses.sum()
        if guided:
            found = sum(model.blocks[i].attn.lookup_loss for i in guide) / len(guide)
            total = loss + LOOKUP_WEIGHT * found
            self.recent_guides.append(found.detach())
        (share * total).backward()
        self.recent.append((loss.detach(), (losses.detach() * batch.decisive).sum() / loss.detach()))

    def _drawn(self, guides):
        return guides[torch.randint(len(guides), (GUIDES,), device=guides.device)] if self.on_gpu else guides

    @torch.no_grad()
    def _score_words(self, count=40):
        """Decisive tokens of held-out examples with all that follows masked: how many come out right, by task, and the
        mean loss."""
        if self.words is None:
            examples = self._fitting(self.held_out, count)
            self.words = []
            for task in dict.fromkeys(example.task for example in examples):
                store = CanvasStore(self.tokenizer, self.device, CPU_LENGTHS, self._longest())
                store.add([shard_of(self.tokenizer, [e for e in examples if e.task == task])])
                self.words.append((task, store.cut_canvases(count)))
        text = []
        for task, batches in self.words:
            right = loss = 0
            for batch in batches:
                with self._autocast():
                    logits = self.average.model(batch.inputs, batch.cuts).float()
                targets = batch.targets[torch.searchsorted(batch.rows, batch.cuts)]
                right += (logits.argmax(-1) == targets).sum().item()
                loss += F.cross_entropy(logits, targets, reduction="sum").item()
            total = sum(len(batch.cuts) for batch in batches)
            text.append(f"{task} {100 * right / total:.0f} ({loss / total:.2f})")
        self.log(f"decisive words, % right (loss): {', '.join(text)}  "
                 f"(stage {self.stage + 1}, {self.tokens / 1e6:.2f}M tokens)")

    def _autocast(self):
        """bf16 matrix products, f32 weights and sums."""
        kind = self.device.partition(":")[0]
        return torch.autocast(kind, torch.bfloat16) if self.on_gpu or self.args.bf16 else contextlib.nullcontext()

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
        record = dict(name=name, schedule=schedule, step=self.step, tokens=self.tokens, seconds=self.seconds(),
                      tasks=totals)
        with open(self.args.out / "scores.jsonl", "a") as file:
            file.write(json.dumps(record) + "\n")
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
        if not all(torch.isfinite(loss) for loss, _ in self.recent[-1:]):
            raise ValueError("the loss is not finite; the last checkpoint is kept")
        state = dict(attention_block=self.model.config.attention_block, step=self.step, tokens=self.tokens,
                     seconds=self.seconds(), model=self.model.state_dict(),
                     average=self.average.model.state_dict(), average_steps=self.average.steps,
                     optimizers=[optimizer.state_dict() for optimizer in self.optimizers])
        partial = self.checkpoint.with_suffix(".partial")
        torch.save(state, partial)
        partial.replace(self.checkpoint)
        self.log(f"saved at step {self.step}")

    def _restore(self, state):
        self.model.load_state_dict(state["model"])
        self.average.model.load_state_dict(state["average"])
        self.average.steps = state["average_steps"]
        for optimizer, saved in zip(self.optimizers, state["optimizers"]):
            optimizer.load_state_dict(saved)
            for group in optimizer.param_groups:  # the command says the rate
                group["full_lr"] = optimizer.defaults["lr"]
        self.log(f"resuming at step {self.step}, {self.tokens / 1e6:.2f}M tokens")


def main():
    args = parse_arguments()
    torch.manual_seed(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    trainer = LongTrainer(args)
    signal.signal(signal.SIGTERM, trainer.stop)
    trainer.run()


if __name__ == "__main__":
    main()
