"""Canvases for long answers, made on the device that trains: examples lie there as tokens, batches are gathered and masked
there.

A canvas has one of a few lengths, so that a compiled model sees few shapes; what the example leaves free is end-of-text.
Mask kinds as in canvases.py, drawn per sequence: random (t ~ U, weights 1/t), suffix (everything behind a cut) and block
(earlier blocks visible, the cut's block masked at random, later blocks all masked). Most cuts fall on decisive words.
"""
import multiprocessing
import threading
from typing import NamedTuple

import numpy as np
import torch

import long_tasks
from canvases import tokens_in
from tokenizer import Tokenizer

LENGTHS = (256, 384, 512, 640, 768)  # of a canvas
BLOCK, T_MIN, DECISIVE_CUT_SHARE = 32, 0.05, 0.5
SUFFIX_REACH, SUFFIX_GAIN, BLOCK_GAIN, FAR_WEIGHT, PADDING_WEIGHT = 8.0, 6.0, 3.0, 0.02, 0.1
DECISIVE = 1 << 12  # flag in a stored token


class Kinds(NamedTuple):
    """Shares of suffix and block masks; the rest is random. full: share of canvases with room for the longest answer, the
    others have the shortest length that holds them."""
    suffix: float
    block: float
    full: float


class Batch(NamedTuple):
    inputs: torch.Tensor  # (B, T) with masks
    targets: torch.Tensor  # (N,) tokens under the masks
    rows: torch.Tensor  # (N,) their flat positions
    weights: torch.Tensor  # (N,), so that the sum of weighted losses is the batch's loss


# ---------------------------------------------------------------- examples as tokens, by many processes


def make_shard(job):
    """(seed, count, tokenizer's folder) -> (tokens of all examples in a row with flags, (count, 3) of begin, prompt's
    length, length), the end of the turn included."""
    seed, count, folder = job
    tokenizer, tokens, table, begin = Tokenizer(folder), [], np.empty((count, 3), np.int64), 0
    for i, example in zip(range(count), long_tasks.training_stream(seed)):
        prompt, response = tokenizer.chat(example.prompt), tokenizer.encode(example.response)
        for k in tokens_in(tokenizer, response, long_tasks.decisive_spans(example)):
            response[k] |= DECISIVE
        text = prompt + response + [tokenizer.eot]
        tokens.append(np.array(text, np.int16))
        table[i] = begin, len(prompt), len(text)
        begin += len(text)
    return np.concatenate(tokens), table


class Shards:
    """Shards made by worker processes beside the training; take() gives those that are finished. Create it before the
    first use of a GPU: the workers are forks."""

    def __init__(self, folder, seed, shards, size, workers):
        jobs = [(seed * 100003 + i, size, folder) for i in range(shards)]
        self.finished, self.error, self.lock, self.left = [], None, threading.Lock(), shards
        self.pool = multiprocessing.get_context("fork").Pool(workers) if workers > 1 else None
        results = self.pool.imap_unordered(make_shard, jobs) if self.pool else map(make_shard, jobs)
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
    """Grows by add(); batch(seed, tokens, kinds) draws from what is there."""

    def __init__(self, tokenizer, device, longest_answer=long_tasks.MAX_ANSWER):
        self.eos, self.mask, self.device, self.longest_answer = tokenizer.eos, tokenizer.mask, device, longest_answer
        self.tokens = torch.empty(0, dtype=torch.int16, device=device)
        self.table = np.empty((0, 3), np.int64)
        self.device_table, self.groups = None, {}

    def __len__(self):
        return len(self.table)

    def add(self, shards):
        begin, tables, parts = len(self.tokens), [self.table], [self.tokens]
        for tokens, table in shards:
            tables.append(table + [begin, 0, 0])
            parts.append(torch.from_numpy(tokens).to(self.device))
            begin += len(tokens)
        self.tokens, self.table = torch.cat(parts), np.concatenate(tables)
        self.device_table = torch.from_numpy(self.table).to(self.device)
        lengths = np.array(LENGTHS)
        fitting = np.searchsorted(lengths, self.table[:, 2] + 1)
        roomy = np.searchsorted(lengths, np.minimum(self.table[:, 1] + self.longest_answer, lengths[-1]))
        self.groups = {full: [torch.from_numpy(np.flatnonzero(which == k)).to(self.device) for k in range(len(LENGTHS))]
                       for full, which in ((False, fitting), (True, roomy))}

    def batch(self, seed, tokens, kinds):
        """About `tokens` positions, all canvases of one length; every example is equally likely over many batches."""
        choose = torch.Generator().manual_seed(seed)
        groups = self.groups[bool(torch.rand((), generator=choose) < kinds.full)]
        share = torch.tensor([float(len(group) * length) for group, length in zip(groups, LENGTHS)])
        k = torch.multinomial(share, 1, generator=choose).item()
        generator = torch.Generator(self.device).manual_seed(seed + 1)
        size = max(1, tokens // LENGTHS[k])
        drawn = torch.randint(len(groups[k]), (size,), device=self.device, generator=generator)
        return self._canvases(self.device_table[groups[k][drawn]], LENGTHS[k], kinds, generator)

    def _canvases(self, table, length, kinds, generator):
        begin, start, end = (column[:, None] for column in table.T)
        size, device = len(table), self.device
        rand = lambda *shape: torch.rand(*shape, device=device, generator=generator)
        position = torch.arange(length, device=device)[None]
        stored = self.tokens[(begin + position).clamp_max(len(self.tokens) - 1)].long()
        text = position < end
        decisive, tokens = text & (stored >= DECISIVE), torch.where(text, stored % DECISIVE, self.eos)

        answer = position >= start
        t = (rand(1) + torch.arange(size, device=device) / size) % 1 * (1 - T_MIN) + T_MIN  # covers the whole range
        t = t[torch.randperm(size, device=device, generator=generator)][:, None]
        noise = rand(size, length) < t
        kind = rand(size)[:, None]
        suffix, block = kind < kinds.suffix, (kind >= kinds.suffix) & (kind < kinds.suffix + kinds.block)

        cut = start + (rand(size)[:, None] * (end - start + 8)).long()  # some behind the end
        chance = rand(size, length) * decisive
        at_result = decisive.any(1, keepdim=True) & (rand(size)[:, None] < DECISIVE_CUT_SHARE)
        cut = torch.where(at_result, chance.argmax(1, keepdim=True), cut)
        low = start + (cut - start) // BLOCK * BLOCK
        later = position >= low + BLOCK
        mask = torch.where(suffix, position >= cut,
                           torch.where(block, (position >= low) & (noise | later), answer & noise))
        near = SUFFIX_GAIN * torch.exp((cut - position) / SUFFIX_REACH) + FAR_WEIGHT
        weight = torch.where(suffix, near, torch.where(block, torch.where(later, FAR_WEIGHT, BLOCK_GAIN / t), 1 / t))
        weight = weight * torch.where(position < end + 4, 1.0, PADDING_WEIGHT)
        rows = mask.flatten().nonzero().flatten()
        return Batch(tokens.masked_fill(mask, self.mask), tokens.flatten()[rows], rows,
                     weight.expand(size, length).flatten()[rows] / (end - start).sum())
