"""Training canvases: examples as token batches with end padding, and the masks that the model has to fill.

A canvas is prompt, response, end-of-turn, then end-of-text up to a random length: the model learns to fill unused
room. A batch is a function of (seed, step), so a resumed run sees what an uninterrupted one would have seen.

Mask kinds, drawn per sequence:
  random   LLaDA's objective: t ~ U(0.05, 1), each response token masked with probability t, its loss weighted 1/t.
  suffix   what a sampler sees late in a block: everything before a cut is visible, everything after it masked; the
           weight falls with the distance from the cut, since far tokens can hardly be known.
  block    what a sampler sees in the middle of a block: earlier blocks visible, the cut's block masked at random with
           t, later blocks all masked (small weight).
  decisive only the results (drills.py), everything else visible; all drills, a share of the others. A task that has no
           such places gets `random` instead.
"""
from typing import NamedTuple

import torch

from drills import ONLY_DECISIVE, decisive_spans, sources
from tokenizer import tokens_in

MAX_RESPONSE = 128  # tokens, padding included: the generation length that the models are used with
BLOCK = 32  # as in the sampler
T_MIN = 0.05  # bounds the weight 1/t
DECISIVE_MASK_SHARE, DECISIVE_WEIGHT, DECISIVE_CUT_SHARE = 0.95, 4.0, 0.6
SUFFIX_REACH, SUFFIX_GAIN, FAR_WEIGHT = 6.0, 4.0, 0.05  # weight = gain * exp(-distance / reach) + far


class MaskMix(NamedTuple):
    """Shares of the mask kinds; the rest is `random`. whole_canvas: share of batches that also mask the prompt, as in
    pretraining, with `random` masks. long_room: share of canvases that may be padded up to MAX_RESPONSE, the others get
    a few tokens of padding."""
    suffix: float = 0.0
    block: float = 0.0
    decisive: float = 0.0
    whole_canvas: float = 0.1
    long_room: float = 0.4


RANDOM_MASKS = MaskMix()
SAMPLER_MASKS = MaskMix(suffix=0.4, block=0.2, whole_canvas=0.03)
# For finished weights: short canvases, the decisive words masked with their surroundings known.
LOOKUP_MASKS = MaskMix(suffix=0.35, block=0.1, decisive=0.4, whole_canvas=0.0, long_room=0.1)
FINAL_MASKS = MaskMix(suffix=0.35, block=0.2, decisive=0.2, whole_canvas=0.02, long_room=0.2)


class Batch(NamedTuple):
    inputs: torch.Tensor  # (B, T) with masks
    targets: torch.Tensor  # (N,) tokens under the masks
    rows: torch.Tensor  # (N,) their flat positions
    weights: torch.Tensor  # (N,) so that the sum of weighted losses is the batch's loss
    lookups: torch.Tensor  # (M, 3) flat positions: masked tokens that stand in the prompt, and between where and where
    hops: torch.Tensor  # (K, 3) the same from a fact's result to its key, in the prompt and in the response


class CanvasSource:
    """Endless batches over a fixed list of examples."""

    def __init__(self, examples, tokenizer, batch_size, seed, masks=RANDOM_MASKS):
        self.tokenizer, self.batch_size, self.seed, self.masks = tokenizer, batch_size, seed, masks
        self.prompts = [tokenizer.chat(example.prompt) for example in examples]
        self.responses = [tokenizer.encode(example.response) + [tokenizer.eot] for example in examples]
        self.decisive = [_decisive_tokens(tokenizer, example, response)
                         for example, response in zip(examples, self.responses)]
        self.lookups = [_lookups(tokenizer, example, prompt, response)
                        for example, prompt, response in zip(examples, self.prompts, self.responses)]
        self.only_decisive = [example.task in ONLY_DECISIVE for example in examples]
        self._epoch, self._groups = None, []

    def batch(self, step):
        epoch, index = divmod(step, max(1, len(self.prompts) // self.batch_size))
        if epoch != self._epoch:
            self._epoch, self._groups = epoch, self._group(torch.Generator().manual_seed(mix_seed(self.seed, epoch, 0)))
        members, lengths = self._groups[index]
        return self._corrupt(members, lengths, torch.Generator().manual_seed(mix_seed(self.seed, step, 1)))

    def _group(self, generator):
        """-> [(examples of a batch, their canvas lengths)]: similar lengths together, in random order."""
        padded = []
        for i, (prompt, response) in enumerate(zip(self.prompts, self.responses)):
            little = torch.rand((), generator=generator) >= self.masks.long_room
            high = len(response) + 9 if little else max(MAX_RESPONSE + 1, len(response) + 1)
            room = torch.randint(len(response), high, (), generator=generator).item()
            padded.append((len(prompt) + room, i))
        order = torch.randperm(len(padded), generator=generator).tolist()
        pool = self.batch_size * 32  # sorting within pools keeps the order random at the scale of an epoch
        groups = []
        for start in range(0, len(order), pool):
            ranked = sorted(padded[i] for i in order[start:start + pool])
            groups += [ranked[k:k + self.batch_size] for k in range(0, len(ranked), self.batch_size)]
        groups = [group for group in groups if len(group) == min(self.batch_size, len(order))]
        shuffled = torch.randperm(len(groups), generator=generator).tolist()
        return [([i for _, i in groups[k]], [length for length, _ in groups[k]]) for k in shuffled]

    def _corrupt(self, members, lengths, generator):
        width = -(-max(lengths) // 8) * 8  # few distinct shapes
        tokens = torch.full((len(members), width), self.tokenizer.eos)
        decisive = torch.zeros(tokens.shape, dtype=torch.bool)
        for row, i in enumerate(members):
            text = self.prompts[i] + self.responses[i]
            tokens[row, :len(text)] = torch.tensor(text)
            decisive[row, [len(self.prompts[i]) + k for k in self.decisive[i]]] = True
        starts = torch.tensor([len(self.prompts[i]) for i in members])
        written = torch.tensor([len(self.responses[i]) for i in members])
        only_decisive = torch.tensor([self.only_decisive[i] for i in members])
        mask, weight, answer_tokens, whole = self._masks(decisive, starts, written, only_decisive, generator)
        rows = mask.flatten().nonzero().flatten()
        inputs = tokens.masked_fill(mask, self.tokenizer.mask)
        masked = [(row * width, lookup, hops) for row, i in enumerate(members)
                  for at, lookup, hops in self.lookups[i] if mask[row, at] and not whole]
        flat = lambda places: torch.tensor(places, dtype=torch.long).reshape(-1, 3)
        lookups = flat([[base + place for place in lookup] for base, lookup, _ in masked])
        hops = flat([[base + place for place in hop] for base, _, hops in masked for hop in hops])
        return Batch(inputs, tokens.flatten()[rows], rows, weight.flatten()[rows] / answer_tokens, lookups, hops)

    def _masks(self, decisive, starts, written, only_decisive, generator):
        """decisive (B, T), the rest (B,). -> mask (B, T), weight (B, T), number of tokens that could have been masked,
        whether the prompt was among them"""
        size, width = decisive.shape
        position = torch.arange(width)[None]
        # Stratified: a batch always covers the whole range of t.
        t = (torch.rand((), generator=generator) + torch.arange(size) / size) % 1 * (1 - T_MIN) + T_MIN
        t = t[torch.randperm(size, generator=generator)][:, None]
        whole = torch.rand((), generator=generator) < self.masks.whole_canvas
        answer = position >= (torch.zeros_like(starts) if whole else starts)[:, None]
        noise = torch.rand(size, width, generator=generator) < t
        mask = answer & noise
        weight = 1 / t.expand(size, width)
        if not whole:
            cut = starts + (torch.rand(size, generator=generator) * written).long()
            # Most cuts fall before a result: that is where a sampler that writes left to right can go wrong.
            chance = torch.rand(size, width, generator=generator) * decisive
            at_result = decisive.any(1) & (torch.rand(size, generator=generator) < DECISIVE_CUT_SHARE)
            cut = torch.where(at_result, chance.argmax(1), cut)
            kind = torch.rand(size, generator=generator)[:, None]
            suffix = kind < self.masks.suffix
            block = ~suffix & (kind < self.masks.suffix + self.masks.block)
            results = (kind >= 1 - self.masks.decisive) & decisive.any(1, keepdim=True) | only_decisive[:, None]
            mask, weight = _suffix(mask, weight, suffix, position, cut[:, None])
            low = (starts + (cut - starts) // BLOCK * BLOCK)[:, None]
            mask, weight = _block(mask, weight, block, position, low, noise)
            hidden = decisive & (torch.rand(size, width, generator=generator) < DECISIVE_MASK_SHARE)
            mask, weight = torch.where(results, hidden, mask), torch.where(results, DECISIVE_WEIGHT, weight)
        return mask, weight, answer.sum(), whole


def _decisive_tokens(tokenizer, example, response):
    """Indices of the response's tokens that lie in one of its decisive spans."""
    return tokens_in(tokenizer, response, decisive_spans(example.task, example.response))


def _lookups(tokenizer, example, prompt, response):
    """-> [(position of a decisive token, its lookup, [the hops to the keys])] on the canvas, lookup and hops as (at, first
    position attended to, end); a number's digits one by one."""
    shift, start, out = tokenizer.decode(prompt).index(example.prompt), len(prompt), []
    in_prompt = lambda span: tokens_in(tokenizer, prompt, [(span[0] + shift, span[1] + shift)])
    in_response = lambda span: [start + i for i in tokens_in(tokenizer, response, [span])]
    for found in sources(example):
        results, source, hops = in_response(found.result), in_prompt(found.source), []
        if found.key:
            key, source_key = in_response(found.key), in_prompt(found.source_key)
            hops = [(at, source_key[0], source_key[-1] + 1) for at in source]
        for k, at in enumerate(results):
            near = source[k:k + 1] if len(results) == len(source) else source
            out.append((at, (at, near[0], near[-1] + 1), hops + [(at, key[0], key[-1] + 1)] if found.key else []))
    return out


def _suffix(mask, weight, where, position, cut):
    near = SUFFIX_GAIN * torch.exp((cut - position) / SUFFIX_REACH) + FAR_WEIGHT
    return torch.where(where, position >= cut, mask), torch.where(where, near, weight)


def _block(mask, weight, where, position, low, noise):
    later = position >= low + BLOCK
    inside = (position >= low) & (noise | later)
    return torch.where(where, inside, mask), torch.where(where & later, FAR_WEIGHT, weight)


def mix_seed(*numbers):
    """One seed from several numbers, different for (1, 2) and (2, 1)."""
    seed = 0
    for number in numbers:
        seed = (seed * 1_000_003 + number + 1) % (1 << 62)
    return seed
