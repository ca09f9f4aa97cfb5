"""Canvases for long answers: examples lie as tokens on the device that trains, batches are gathered and masked there.

Mask kinds as in canvases.py, drawn per sequence: random (t ~ U, weights 1/t), suffix (everything behind a cut), block
(earlier blocks visible, the cut's block masked at random, later blocks all masked) and decisive (only the decisive
words; tasks whose lines repeat earlier results get a suffix instead). Most cuts fall on decisive words.

A canvas ends soon after what it can teach: behind a cut only a few masks are kept, behind a whole answer a little
end-of-text; a share of the canvases has room for the longest answer. Its length is one of a few (a compiled model sees
few shapes) and all canvases of a batch have the same.
"""
import multiprocessing
import threading
from typing import NamedTuple

import numpy as np
import torch

import asked_tasks
import long_guides
import long_tasks
from tokenizer import Tokenizer, tokens_in

GPU_LENGTHS, CPU_LENGTHS = (192, 320, 448, 768), tuple(range(48, 769, 24))  # of a canvas
BLOCK, T_MIN, DECISIVE_CUT_SHARE = 32, 0.05, 0.6
SUFFIX_REACH, SUFFIX_GAIN, BLOCK_GAIN, FAR_WEIGHT, PADDING_WEIGHT = 24.0, 3.0, 3.0, 0.1, 0.1
# Weight of decisive words in other masks (a factor) and in masks of their own; how many the latter hide.
DECISIVE_GAIN, DECISIVE_WEIGHT, DECISIVE_SHARE = 3.0, 6.0, 0.95
TAIL, ROOM = (16, 80), 24  # masks kept behind a cut; end-of-text behind a whole answer, at most
# What a rule leaves masked is what is hard: in this share of the canvases whose noise is partial, a decisive word stays
# masked with probability t to this power.
HARD_SHARE, HARD_POWER = 0.5, 0.25
DECISIVE = 1 << 12  # flag in a stored token
RANDOM, SUFFIX, INNER, WORDS = range(4)  # kinds of masks


class Kinds(NamedTuple):
    """Shares of the kinds of masks; the rest is random. full: share of canvases with room for the longest answer."""
    suffix: float
    block: float
    decisive: float
    full: float


class Batch(NamedTuple):
    inputs: torch.Tensor  # (B, T) with masks
    targets: torch.Tensor  # (N,) tokens under the masks
    rows: torch.Tensor  # (N,) their flat positions
    weights: torch.Tensor  # (N,), so that the sum of weighted losses is the batch's loss
    decisive: torch.Tensor  # (N,) whether they are of a decisive word
    answers: int  # tokens of the answers, the batch's share among others
    cuts: torch.Tensor  # (B,) flat positions of the cuts
    lookups: torch.Tensor  # (M, 3) flat positions: masked tokens, and between where and where they stand already
    hops: torch.Tensor  # (K, 3) the same from masked tokens and what they copy to the keys of both
    positions: torch.Tensor = None  # (B, T) where they are not those of the canvas
    visible: torch.Tensor = None  # (B, T, T) which positions see which, where not all see all


# ---------------------------------------------------------------- examples as tokens, by other processes


class Shard(NamedTuple):
    tokens: np.ndarray  # all examples in a row, with flags
    table: np.ndarray  # (count, 4): begin, prompt's length, length with the turn's end, whether WORDS masks make sense
    words: list  # per example: positions of decisive tokens
    guides: list  # per example: (lookups (N, 4), hops (K, 4)) of long_guides.guides
    tasks: list  # per example


def make_shard(job):
    """(seed, count, tokenizer's folder, limits of long answers or None, shares) -> Shard"""
    seed, count, folder, limits, shares = job
    stream = long_tasks.training_stream(seed, limits, shares) if limits else asked_tasks.training_stream(seed, shares)
    return shard_of(Tokenizer(folder), [example for example, _ in zip(stream, range(count))])


def shard_of(tokenizer, examples):
    tokens, table, words, guides, begin = [], np.empty((len(examples), 4), np.int64), [], [], 0
    for i, example in enumerate(examples):
        prompt, response = tokenizer.chat(example.prompt, example.system), tokenizer.encode(example.response)
        found = tokens_in(tokenizer, response, long_guides.decisive_spans(example))
        # That a word has ended is as hard to tell as its letters: "ZoeZoe" was the commonest error without this.
        found = sorted({token for at in found for token in (at, at + 1) if token < len(response)})
        decisive = len(prompt) + np.array([*found, len(response)], np.int64)  # the end is one of them
        text = np.array(prompt + response + [tokenizer.eot], np.int16)
        text[decisive] |= DECISIVE
        tokens.append(text)
        words.append(decisive)
        guides.append([np.array(found, np.int32).reshape(-1, 4)
                       for found in long_guides.guides(tokenizer, example, prompt, response)])
        table[i] = begin, len(prompt), len(text), example.task in long_guides.INDEPENDENT
        begin += len(text)
    return Shard(np.concatenate(tokens), table, words, guides, [example.task for example in examples])


class Shards:
    """Shards made by worker processes beside the training; take() gives those that are finished. The workers are forks,
    which use neither PyTorch nor a GPU."""

    def __init__(self, jobs, workers):
        self.finished, self.error, self.lock, self.left = [], None, threading.Lock(), len(jobs)
        self.pool = multiprocessing.get_context("fork").Pool(workers) if workers > 0 else None
        results = self.pool.imap(make_shard, jobs) if self.pool else map(make_shard, jobs)
        self.thread = threading.Thread(target=self._collect, args=(results,), daemon=True)
        self.thread.start()

    def _collect(self, results):
        try:
            for shard in results:
                with self.lock:
                    self.finished.append(shard)
        except BaseException as error:  # told to the caller of take()
            self.error = error
            raise
        if self.pool:
            self.pool.close()

    def take(self):
        if self.error:
            raise RuntimeError("a worker failed") from self.error
        with self.lock:
            taken, self.finished = self.finished, []
        self.left -= len(taken)
        return taken


# ---------------------------------------------------------------- batches on the device


class CanvasStore:
    """Grows by add(); batch(tokens, kinds) draws from what is there."""

    def __init__(self, tokenizer, device, lengths, longest_answer, seed=0, guided_canvases=None):
        """guided_canvases: so many of a batch get guides, all where it is None."""
        self.eos, self.mask, self.device, self.longest_answer = tokenizer.eos, tokenizer.mask, device, longest_answer
        self.guided_canvases = guided_canvases
        self.lengths, self.rng = np.array(lengths), np.random.default_rng(seed)
        self.tokens = torch.empty(0, dtype=torch.int16, device=device)
        self.table, self.words, self.guides, self.tasks = np.empty((0, 4), np.int64), [], [], []
        self.pending = {}  # canvases that wait for a full batch, by length
        self.gain = DECISIVE_GAIN

    def __len__(self):
        return len(self.table)

    def add(self, shards):
        begin, tables, parts = len(self.tokens), [self.table], [self.tokens]
        for shard in shards:
            tables.append(shard.table + [begin, 0, 0, 0])
            parts.append(torch.from_numpy(shard.tokens).to(self.device))
            begin += len(shard.tokens)
            self.words += shard.words
            self.guides += shard.guides
            self.tasks += shard.tasks
        self.tokens, self.table = torch.cat(parts), np.concatenate(tables)

    def batch(self, tokens, kinds, guided=False):
        """About `tokens` positions, all canvases of one length; every example is equally likely over many batches."""
        while True:
            for length, waiting in self.pending.items():
                size = max(1, tokens // length)
                if len(waiting) >= size:
                    chosen, self.pending[length] = waiting[:size], waiting[size:]
                    return self._canvases(np.stack(chosen), length, guided)
            for canvas in self._plan(256, kinds):
                self.pending.setdefault(int(canvas[-1]), []).append(canvas)

    def cut_canvases(self, count):
        """-> batches of canvases cut at `count` decisive tokens, the same ones each time."""
        rng, plan = np.random.default_rng(0), []
        for i in rng.permutation(np.resize(np.arange(len(self)), count)):
            cut = self.words[i][rng.integers(len(self.words[i]))]
            length = self.lengths[min(np.searchsorted(self.lengths, cut + BLOCK), len(self.lengths) - 1)]
            plan.append((i, SUFFIX, cut, length))
        plan = np.array(sorted(plan, key=lambda canvas: canvas[-1]))
        return [self._canvases(part, int(part[-1, -1]), False) for part in np.array_split(plan, -(-count // 20))]

    def _plan(self, count, kinds):
        """-> (count, 4): example, kind, cut, length of the canvas."""
        rng, drawn = self.rng, self.rng.integers(len(self), size=count)
        _, start, end, independent = self.table[drawn].T
        kind = np.select([(u := rng.random(count)) < kinds.suffix, u < kinds.suffix + kinds.block,
                          u < kinds.suffix + kinds.block + kinds.decisive],
                         [SUFFIX, INNER, np.where(independent, WORDS, SUFFIX)], RANDOM)
        cut = start + (rng.random(count) * (end - start + 8)).astype(np.int64)  # some behind the end
        for i in np.flatnonzero(rng.random(count) < DECISIVE_CUT_SHARE):
            words = self.words[drawn[i]]
            cut[i] = words[rng.integers(len(words))] if len(words) else cut[i]
        low = np.where(kind == INNER, start + (cut - start) // BLOCK * BLOCK, cut)
        tail = rng.integers(*TAIL, size=count) + np.where(kind == INNER, BLOCK, 0)
        needed = end + 1 + rng.integers(ROOM, size=count)
        needed = np.where((kind == SUFFIX) | (kind == INNER), np.minimum(needed + 8, low + tail), needed)
        roomy = np.maximum(start + self.longest_answer, end)
        needed = np.where(rng.random(count) < kinds.full, roomy, needed)
        length = self.lengths[np.minimum(np.searchsorted(self.lengths, needed), len(self.lengths) - 1)]
        return np.stack([drawn, kind, cut, length], 1)

    def _canvases(self, plan, length, guided):
        drawn, device, size = plan[:, 0], self.device, len(plan)
        begin, start, end, _ = (torch.from_numpy(column)[:, None].to(device) for column in self.table[drawn].T)
        kind, cut = (torch.from_numpy(plan[:, k])[:, None].to(device) for k in (1, 2))
        generator = torch.Generator(device).manual_seed(int(self.rng.integers(1 << 62)))
        rand = lambda *shape: torch.rand(*shape, device=device, generator=generator)
        position = torch.arange(length, device=device)[None]
        stored = self.tokens[(begin + position).clamp_max(len(self.tokens) - 1)].long()
        text = position < end
        decisive, tokens = text & (stored >= DECISIVE), torch.where(text, stored % DECISIVE, self.eos)

        t = (rand(1) + torch.arange(size, device=device) / size) % 1 * (1 - T_MIN) + T_MIN  # covers the whole range
        t = t[torch.randperm(size, device=device, generator=generator)][:, None]
        hard = (rand(size, 1) < HARD_SHARE) & (kind == INNER) & decisive
        noise = rand(size, length) < torch.where(hard, t ** HARD_POWER, t)
        low = start + (cut - start) // BLOCK * BLOCK
        later, gain = position >= low + BLOCK, torch.where(decisive, self.gain, 1.0)
        mask = torch.where(kind == SUFFIX, position >= cut, (position >= start) & noise)
        mask = torch.where(kind == INNER, (position >= low) & (noise | later), mask)
        mask = torch.where(kind == WORDS, decisive & (rand(size, length) < DECISIVE_SHARE), mask)
        near = SUFFIX_GAIN * torch.exp((cut - position) / SUFFIX_REACH) + FAR_WEIGHT
        weight = torch.where(kind == SUFFIX, near * gain, gain / t)
        weight = torch.where(kind == INNER, torch.where(later, FAR_WEIGHT, BLOCK_GAIN * gain / t), weight)
        weight = torch.where(kind == WORDS, DECISIVE_WEIGHT, weight)
        weight = weight * torch.where(position < end + 4, 1.0, PADDING_WEIGHT)
        rows = mask.flatten().nonzero().flatten()
        lookups, hops = self._guides(drawn, mask, length) if guided else (None, None)
        first = cut.flatten() + torch.arange(size, device=device) * length
        return Batch(tokens.masked_fill(mask, self.mask), tokens.flatten()[rows], rows,
                     weight.expand(size, length).flatten()[rows] / (end - start).sum(), decisive.flatten()[rows],
                     (end - start).sum().item(), first,
                     lookups, hops)

    def _guides(self, drawn, mask, length):
        """-> lookups and hops of the masked tokens, the first once each."""
        mask, out = mask[:self.guided_canvases].cpu().numpy(), []
        for parts in zip(*(self.guides[i] for i in drawn[:self.guided_canvases])):
            row = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
            found = np.concatenate(parts).astype(np.int64)
            inside = (found[:, [0, 3]] < length).all(1) & (found[:, 1:3] <= length).all(1)
            inside[inside] = mask[row[inside], found[inside, 3]]
            out.append(torch.from_numpy(found[inside, :3] + row[inside, None] * length).to(self.device))
        return out
