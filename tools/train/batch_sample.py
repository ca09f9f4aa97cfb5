"""The sampler of sample.py for many prompts at once, for scores during training. The canvases of a batch have one length,
so an answer may have more room than asked for; with that exception it does the same, in the caller's precision. For
block-causal attention, which sample.py does not know, blocks are the model's.
"""
import torch

import sample


@torch.no_grad()
def generate_batch(model, tokenizer, prompts, length=384, block_length=32, threshold=None, batch=128, tail=None):
    """prompts: lists of token ids. One token per forward, or with a threshold every one above it. A canvas stops after
    the block with the end of the turn. tail: masks that a forward sees behind the last block at work, all if None; fewer
    are cheaper, and a model that trained on short canvases writes nearly the same. -> (answer tokens per prompt, forwards per prompt)"""
    device = model.head.weight.device
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    answers, forwards = [None] * len(prompts), [0] * len(prompts)
    for begin in range(0, len(order), batch):
        members = order[begin:begin + batch]
        width = -(-(len(prompts[members[-1]]) + length) // 64) * 64
        canvas = torch.full((len(members), width), tokenizer.mask, device=device)
        for row, i in enumerate(members):
            canvas[row, :len(prompts[i])] = torch.tensor(prompts[i], device=device)
        start = torch.tensor([len(prompts[i]) for i in members], device=device)
        # Block-causal attention has blocks of its own, the first of which may begin with the end of the prompt.
        low = start - start % (model.config.attention_block or 1)
        alive = torch.arange(len(members), device=device)
        inside = torch.arange(block_length, device=device)
        count = torch.zeros(len(members), dtype=torch.long, device=device)
        while len(alive):
            at = low[alive, None] + inside
            seen = width if tail is None else min(width, low[alive].max().item() + block_length + tail)
            current = canvas[alive, :seen]
            rows = (torch.arange(len(alive), device=device)[:, None] * seen + at).flatten()
            logits = model(current, rows).float().view(len(alive), block_length, -1)
            confidence, best = logits.softmax(-1).max(-1)
            block = current.gather(1, at)
            confidence = confidence.masked_fill(block != tokenizer.mask, -1)
            chosen = inside == confidence.argmax(1, keepdim=True)
            if threshold is not None:
                chosen |= confidence > threshold
            block = torch.where(chosen & (confidence >= 0), best, block)
            canvas[alive, :seen] = current.scatter(1, at, block)
            count[alive] += 1
            complete = (block != tokenizer.mask).all(1)
            turn_ends = ((block == tokenizer.eot) & (at >= start[alive, None])).any(1)
            ended = complete & (turn_ends | (low[alive] - start[alive] + block_length >= length))
            low[alive] += block_length * complete
            alive = alive[~ended]
        for row, i in enumerate(members):
            answers[i] = canvas[row, len(prompts[i]):len(prompts[i]) + length].tolist()
            forwards[i] = count[row].item()
    return answers, forwards


def score_batch(model, tokenizer, examples, **options):
    """-> {task: [examples, answers right, whole responses right, forwards]}, the texts"""
    answers, forwards = generate_batch(model, tokenizer, [tokenizer.chat(e.prompt, e.system) for e in examples], **options)
    totals, texts = {}, []
    for example, tokens, used in zip(examples, answers, forwards):
        text = tokenizer.decode_answer(tokens)
        row = totals.setdefault(example.task, [0, 0, 0, 0])
        row[0] += 1
        row[1] += sample.extract_answer(example.task, text) == example.answer
        row[2] += text == example.response
        row[3] += used
        texts.append(text)
    return totals, texts
