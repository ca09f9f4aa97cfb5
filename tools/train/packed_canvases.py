"""Canvases that hold many cuts of one answer at once, for training on little hardware.

A canvas of long_canvases.py teaches what follows one cut, at the price of a whole prompt and answer. Here the prompt and
the answer stand once, as they are, and behind them COPIES copies of the answer, masked. A copy is cut into segments of 1
to 32 positions; a segment keeps the positions (RoPE) of what it stands for and sees what lies before it, and itself.
The clean answer sees no further than the next cut, so nothing is given away. This is the training of block diffusion
(Arriola et al. 2025, BD3-LM) with blocks of drawn widths.

For a model with block-causal attention (LLaDA2) the segments are its blocks, and a position of the text sees its own
block and those before. Masks then stand only where its sampler has them, and these canvases are all that is needed.

Such a model can be read causally as well, to verify its own drafts (`--accept causal`, src/decode/self_speculation.h):
every position sees those before it, and a draft the rest of its block. A share of the canvases trains that: the text is
causal, in one copy each mask sees what is before it alone, in the other a block is masked from somewhere on.

A decision is asked with the end of its answer in sight, so one copy of its label keeps that.

With full attention they lack what a bidirectional sampler has: earlier tokens that see the masks behind them. So there
they come beside the canvases of long_canvases.py, not in their place.
"""
from typing import NamedTuple

import numpy as np
import torch

from long_canvases import DECISIVE, FAR_WEIGHT, HARD_POWER, HARD_SHARE, PADDING_WEIGHT, Batch, CanvasStore

DECISION_GAIN = 8.0  # a label is one word beside answers of 50
COPIES, PADDING, ROUND = 2, 16, 24  # of an answer; end-of-text behind it, at most; lengths are multiples
WIDTHS, SHARES = np.array([1, 2, 4, 8, 16, 32]), np.array([0.4, 0.2, 0.15, 0.1, 0.1, 0.05])
ALL_MASKED, REACH = 0.5, 12.0  # share of segments; e-fold of a weight behind a segment's first mask, in positions


class Canvas(NamedTuple):
    """T positions: the text, the segments, what fills up."""
    inputs: np.ndarray  # (T,) tokens
    positions: np.ndarray  # (T,) in the text
    sees: np.ndarray  # (T,) how much of the text a position sees
    segment: np.ndarray  # (T,) its segment, which it sees too; the text has none, -1
    rows: np.ndarray  # (N,) masked positions
    targets: np.ndarray  # (N,)
    weights: np.ndarray  # (N,)
    decisive: np.ndarray  # (N,)
    answer: int  # tokens
    lookups: np.ndarray  # (M, 3), as in Batch
    hops: np.ndarray  # (K, 3)


class PackedStore:
    """Draws from the examples of a CanvasStore, which goes on growing."""

    def __init__(self, store: CanvasStore, seed=0, block=0, causal=0.0):
        """block: of a model's block-causal attention; 0: it has none. causal: share of canvases that are read causally."""
        self.store, self.rng, self.block, self.causal = store, np.random.default_rng(seed), block, causal
        self.pending = {}  # canvases that wait for a full batch, by length

    def batch(self, tokens, guided=False):
        while True:
            for length, waiting in self.pending.items():
                size = max(1, tokens // length)
                if len(waiting) >= size:
                    chosen, self.pending[length] = waiting[:size], waiting[size:]
                    return self._batch([self._canvas(i, seed, guided, length) for i, seed in chosen], length)
            for i, seed in zip(self.rng.integers(len(self.store), size=64), self.rng.integers(1 << 40, size=64)):
                needed = len(self._canvas(i, seed, False).inputs)
                self.pending.setdefault(-(-needed // ROUND) * ROUND, []).append((i, seed))

    def _batch(self, canvases, length):
        device = self.store.device
        flat = lambda name: torch.from_numpy(np.concatenate(
            [getattr(canvas, name) + (row * length) for row, canvas in enumerate(canvases)]).astype(np.int64)).to(device)
        joined = lambda name: torch.from_numpy(np.concatenate([getattr(c, name) for c in canvases])).to(device)
        stacked = lambda name: torch.from_numpy(np.stack([getattr(c, name) for c in canvases])).to(device)
        answers = sum(canvas.answer for canvas in canvases)
        sees, segment = stacked("sees"), stacked("segment")
        column = torch.arange(length, device=device)
        text = (segment == -1) & (column < sees.amax(1, keepdim=True))
        visible = text[:, None] & (column < sees[:, :, None])
        visible |= (segment[:, :, None] == segment[:, None]) & (segment >= 0)[:, None]
        return Batch(stacked("inputs"), joined("targets"), flat("rows"), joined("weights").float() / (COPIES * answers),
                     joined("decisive"), answers, None, flat("lookups"), flat("hops"), stacked("positions"), visible)

    def _canvas(self, example, seed, guided, length=None):
        store, rng = self.store, np.random.default_rng(seed)
        begin, start, end, _ = store.table[example]
        stored = store.tokens[begin:begin + end].cpu().numpy().astype(np.int64)
        text_end = -(-end // self.block) * self.block if self.block else end + rng.integers(PADDING)
        text = np.full(text_end, store.eos)
        text[:end] = stored % DECISIVE
        decisive = np.zeros(text_end, bool)
        decisive[:end] = stored >= DECISIVE
        place = np.arange(text_end)
        decision, causal = store.tasks[example] == "decision", False
        # Of each copy: which positions it has, and where its segments begin. A block may begin with the end of the prompt.
        copied = [np.arange(start // self.block * self.block if self.block else start, text_end)] * COPIES
        if self.block:
            cuts = [np.arange(copied[0][0], text_end, self.block)] * COPIES
            causal = not decision and rng.random() < self.causal
            sees = place + 1 if causal else (place // self.block + 1) * self.block
        else:
            cuts = [self._cuts(rng, start, text_end) for _ in range(COPIES)]
            every = np.unique(np.concatenate(cuts))
            after = every[np.searchsorted(every, place, "right").clip(max=len(every) - 1)]
            sees = np.where(place < start, start, after)
        if causal:
            opens = np.maximum(cuts[0] + (rng.random(len(cuts[0])) < 0.5) * rng.integers(self.block, size=len(cuts[0])), start)
            copied = [np.arange(start, end), copied[0][copied[0] >= opens[copied[0] // self.block - cuts[0][0] // self.block]]]
            cuts = [copied[0], opens]
        columns = dict(inputs=[text], positions=[place], sees=[sees], segment=[np.full(text_end, -1)])
        masks, firsts, number = [], [], 0
        for place, copy in zip(copied, cuts):
            own = np.searchsorted(copy, place, "right") - 1
            low = copy[own]
            whole = rng.random(len(copy)) < (1 if causal else ALL_MASKED)
            share = np.where(whole, 1.1, rng.uniform(0.2, 1, len(copy)))
            power = np.where(rng.random(len(copy)) < HARD_SHARE, HARD_POWER, 1)
            mask = rng.random(len(place)) < np.where(decisive[place], share[own] ** power[own], share[own])
            mask &= (place >= start) & (place < (end - 1 if decision and number == 0 else text_end))
            first = np.full(len(copy), text_end)
            np.minimum.at(first, own[mask], place[mask])
            columns["inputs"].append(np.where(mask, store.mask, text[place]))
            columns["positions"].append(place)
            columns["sees"].append(low)
            columns["segment"].append(own + number)
            masks.append(mask)
            firsts.append(first[own])
            number += len(copy)
        joined = {name: np.concatenate(parts) for name, parts in columns.items()}
        mask, first = np.concatenate(masks), np.concatenate(firsts)
        rows = text_end + np.flatnonzero(mask)
        place = joined["positions"][rows]
        weights = np.exp((first[mask] - place) / REACH) + FAR_WEIGHT
        weights *= np.where(decisive[place], store.gain, 1) * np.where(place < end + 4, 1, PADDING_WEIGHT)
        weights *= DECISION_GAIN if decision else 1
        guides = self._guides(store.guides[example], joined, text_end, mask) if guided else [np.empty((0, 3), np.int64)] * 2
        if length:  # what fills up sees itself alone
            fill = length - len(joined["inputs"])
            for name, value in (("inputs", store.eos), ("positions", 0), ("sees", 0)):
                joined[name] = np.concatenate([joined[name], np.full(fill, value)])
            joined["segment"] = np.concatenate([joined["segment"], number + np.arange(fill)])
        return Canvas(**joined, rows=rows, targets=text[place], weights=weights, decisive=decisive[place],
                      answer=int(end - start), lookups=guides[0], hops=guides[1])

    @staticmethod
    def _cuts(rng, start, end):
        """-> where segments begin, `start` first."""
        widths = rng.choice(WIDTHS, size=end - start, p=SHARES)
        cuts = start + np.concatenate([[0], widths.cumsum()])
        return cuts[cuts < end]

    @staticmethod
    def _guides(guides, columns, text_end, mask):
        """-> lookups and hops of all masked tokens: what asks, and what it asks for, stand in the segment of the masked copy
        where that has them, else in the text."""
        segment, out = columns["segment"], ([], [])
        for found, kept in zip(guides, out):
            if not len(found):
                continue
            for row in np.flatnonzero(mask) + text_end:
                shift, low = row - columns["positions"][row], columns["sees"][row]
                for at, first, last, _ in found[found[:, 3] == columns["positions"][row]]:
                    if first >= low:
                        at, first, last = at + shift, first + shift, last + shift
                        seen = last <= len(segment) and segment[last - 1] == segment[row]
                    elif at >= low:
                        at, seen = at + shift, last <= low
                    else:
                        seen = last <= columns["sees"][at]
                    if seen and (at < low or (at < len(segment) and segment[at] == segment[row])):
                        kept.append((at, first, last))
        return [np.array(kept, np.int64).reshape(-1, 3) for kept in out]
