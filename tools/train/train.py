"""The training loop: phases of (masks, optimizer), a time or step budget, checkpoints that resume exactly.

Learning rate: a short warm-up at the start of every phase, then constant, then a linear fall to 1 % over the last part
(`decay`) of the whole budget. With a step budget the run is a function of the seed; with a time budget the number of steps
depends on the machine.
"""
import contextlib
import dataclasses
import pathlib
import time
from typing import NamedTuple

import torch
from torch.nn import functional as F

import data
from canvases import FINAL_MASKS, LOOKUP_MASKS, RANDOM_MASKS, SAMPLER_MASKS, CanvasSource, MaskMix
from model import HOP_LAYERS, LOOKUP_LAYERS
from optimizers import Average, make_optimizers

WARMUP_STEPS, DECAY_SHARE, BALANCE_WEIGHT, LOOKUP_WEIGHT, CLIP = 30, 0.4, 0.01, 0.5, 1.0
CHECKPOINT_SECONDS, LOG_SECONDS = 120, 10


class Phase(NamedTuple):
    name: str
    share: float  # of the budget
    masks: MaskMix
    muon: bool
    mix: dict = data.MIX  # what the examples are drawn from


# AdamW first: Muon's updates have one size whatever the gradient says, which is rough on fresh weights.
DENSE_PHASES = [Phase("random masks, AdamW", 0.15, RANDOM_MASKS, muon=False),
                Phase("random masks, Muon", 0.55, RANDOM_MASKS, muon=True),
                Phase("sampler masks and drills, Muon", 0.30, SAMPLER_MASKS, muon=True, mix=data.DRILLED)]
# From weights that know the texts of all tasks: first what they get wrong, then everything.
CONTINUE_PHASES = [Phase("lookups, Muon", 0.42, LOOKUP_MASKS, muon=True, mix=data.LOOKUPS),
                   Phase("all tasks, Muon", 0.58, FINAL_MASKS, muon=True, mix=data.BALANCED)]
MIXTURE_PHASES = [Phase("sampler masks and drills, Muon", 1.0, SAMPLER_MASKS, muon=True, mix=data.DRILLED)]


@dataclasses.dataclass
class Budget:
    minutes: float = 0.0
    steps: int = 0  # takes precedence where given

    def progress(self, step, seconds):
        """0 at the start, 1 when used up."""
        return min(1.0, step / self.steps if self.steps else seconds / (60 * self.minutes))


@dataclasses.dataclass
class Settings:
    budget: Budget
    phases: list
    lr: float = 3e-3
    batch_size: int = 48
    average: float = 0.995  # share of the running average that a step keeps
    seed: int = 0
    device: str = "cpu"
    bf16: bool = False
    decay: float = DECAY_SHARE  # last part of the budget, in which the learning rate falls
    guide_lookups: bool = False  # adds the model's lookup_loss()

    def phase_at(self, progress):
        end = 0.0
        for index, phase in enumerate(self.phases):
            end += phase.share
            if progress < end - 1e-9:
                return index
        return len(self.phases) - 1

    def lr_factor(self, progress, steps_in_phase):
        return min(1.0, (steps_in_phase + 1) / WARMUP_STEPS) * max(0.01, min(1.0, (1 - progress) / self.decay))


def pick_device(name="auto"):
    return ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name


class Trainer:
    """make_examples(phase index, mix) -> examples for that phase."""

    def __init__(self, model, tokenizer, make_examples, settings, checkpoint, log=print):
        self.model, self.tokenizer, self.make_examples = model.to(settings.device), tokenizer, make_examples
        self.settings, self.checkpoint, self.log = settings, pathlib.Path(checkpoint), log
        self.average = Average(self.model, settings.average)
        self.step, self.tokens, self.seconds = 0, 0, 0.0
        self.phase, self.phase_start, self.optimizers, self.source = None, 0, [], None
        self.recent, self.recent_lookups = [], []  # losses since the last line of the log
        if self.checkpoint.exists():
            self._load()

    def run(self):
        """-> the averaged model, on the CPU."""
        started = logged = saved = time.monotonic()
        before = self.seconds
        while (progress := self.settings.budget.progress(self.step, self.seconds)) < 1:
            if self.settings.phase_at(progress) != self.phase:
                self._enter(self.settings.phase_at(progress), self.step)
            self._train_step(progress)
            now = time.monotonic()
            self.seconds = before + now - started
            if self.step == 1 or now - logged > LOG_SECONDS:
                self._log_line()
                logged = now
            if now - saved > CHECKPOINT_SECONDS:
                self._save()
                saved = now
        self._log_line()
        self._save()
        return self.average.model.cpu().eval()

    def _enter(self, index, start):
        """Fresh data and a fresh optimizer: both change from phase to phase."""
        phase = self.settings.phases[index]
        self.log(f"phase {index + 1} of {len(self.settings.phases)}: {phase.name}")
        self.phase, self.phase_start = index, start
        self.optimizers = make_optimizers(self.model, self.settings.lr, phase.muon, self.settings.bf16)
        examples = self.make_examples(index, phase.mix)
        self.source = CanvasSource(examples, self.tokenizer, self.settings.batch_size, self.settings.seed + index,
                                   phase.masks)

    def _train_step(self, progress):
        batch = self.source.batch(self.step - self.phase_start)
        inputs, targets, rows, weights, lookups, hops = (tensor.to(self.settings.device) for tensor in batch)
        guided = self.settings.guide_lookups and len(lookups) > 0 and len(hops) > 0
        guide = {**dict.fromkeys(HOP_LAYERS, hops), **dict.fromkeys(LOOKUP_LAYERS, lookups)} if guided else {}
        self.model.train()
        with self._autocast():
            logits = self.model(inputs, rows, guide)
        loss = (F.cross_entropy(logits.float(), targets, reduction="none") * weights).sum()
        extra = BALANCE_WEIGHT * self.model.balance_loss()
        if guided:
            found = self.model.lookup_loss()
            extra = extra + LOOKUP_WEIGHT * found
            self.recent_lookups.append(found.item())
        (loss + extra).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        factor = self.settings.lr_factor(progress, self.step - self.phase_start)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group.setdefault("full_lr", group["lr"]) * factor
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.average.update(self.model)
        self.step += 1
        self.tokens += inputs.numel()
        self.recent.append(loss.item())

    def _autocast(self):
        """bf16 matrix products, f32 weights and sums."""
        kind = self.settings.device.partition(":")[0]
        return torch.autocast(kind, torch.bfloat16) if self.settings.bf16 else contextlib.nullcontext()

    def _log_line(self):
        if self.recent:
            loss = sum(self.recent) / len(self.recent)
            found = sum(self.recent_lookups) / max(1, len(self.recent_lookups))
            guided = f"lookups {found:.4f}  " if self.settings.guide_lookups else ""
            self.log(f"step {self.step}  minutes {self.seconds / 60:.2f}  loss {loss:.4f}  {guided}"
                     f"tokens {self.tokens / 1e6:.2f}M  {self.tokens / max(self.seconds, 1e-9):.0f} tokens/s")
            self.recent, self.recent_lookups = [], []

    # ------------------------------------------------------------ checkpoints

    def _save(self):
        state = dict(
            config=dataclasses.asdict(self.model.config), seed=self.settings.seed, step=self.step, tokens=self.tokens,
            seconds=self.seconds, phase=self.phase, phase_start=self.phase_start, model=self.model.state_dict(),
            average=self.average.model.state_dict(), average_steps=self.average.steps,
            optimizers=[optimizer.state_dict() for optimizer in self.optimizers])
        partial = self.checkpoint.with_suffix(".partial")
        torch.save(state, partial)
        partial.replace(self.checkpoint)  # atomic: a crash leaves the old checkpoint or the new one

    def _load(self):
        state = torch.load(self.checkpoint, map_location=self.settings.device)
        ours = dict(config=dataclasses.asdict(self.model.config), seed=self.settings.seed)
        for key, value in ours.items():
            if state[key] != value:
                raise ValueError(f"{self.checkpoint}: {key} is {state[key]}, this run needs {value}")
        self.model.load_state_dict(state["model"])
        self.average.model.load_state_dict(state["average"])
        self.average.steps, self.step, self.tokens, self.seconds = (
            state[key] for key in ("average_steps", "step", "tokens", "seconds"))
        self.log(f"resuming {self.checkpoint} at step {self.step}, {self.seconds / 60:.1f} minutes")
        if state["phase"] is not None:
            self._enter(state["phase"], state["phase_start"])
            for optimizer, saved in zip(self.optimizers, state["optimizers"]):
                optimizer.load_state_dict(saved)
