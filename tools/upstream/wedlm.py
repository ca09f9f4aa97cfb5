#!/usr/bin/env python3
"""WeDLM: Qwen2's and Qwen3's classes of the package transformers over rows in the order in which they were decided.

Writes tests/data/wedlm: small models of random weights as folders (config.json with the family's keys) and what the
class computes from them in 32-bit floats (golden.json): logits of canvases whose masks stand behind all other rows and
keep their positions, and whole answers by windows, with the forwards that decided something. The loop stands here and
is written from a description of the published one. --checkout DIR: a checkout of WeDLM, whose decoder and sampler must
give the same answers.

    tools/upstream/wedlm.py [--out tests/data/wedlm] [--checkout WeDLM]
"""
import argparse
import importlib
import json
import pathlib
import random
import sys
import types

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
VOCABULARY, MASK, EOS, WINDOW, FARTHER = 96, 90, 1, 16, 0.02
COMMON = dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=2, max_position_embeddings=256, rms_norm_eps=1e-6, pad_token_id=EOS,
              bos_token_id=None, eos_token_id=EOS, tie_word_embeddings=False)
KINDS = {"qwen3": ("Qwen3", dict(head_dim=16), dict(qk_norm=True, attention_bias=False)),
         "qwen2": ("Qwen2", dict(), dict())}  # whose keys have their defaults


def build(kind, seed):
    import transformers
    name, fields, _ = KINDS[kind]
    config = getattr(transformers, f"{name}Config")(
        **COMMON, **fields, rope_parameters=dict(rope_type="default", rope_theta=10000.0))
    config._attn_implementation = "eager"
    model = getattr(transformers, f"{name}ForCausalLM")(config).float().eval()
    generator = torch.Generator().manual_seed(seed)
    for name, value in sorted(model.named_parameters()):
        noise = torch.randn(value.shape, generator=generator)
        if name.endswith("bias"):
            noise *= 0.3
        elif value.dim() == 1:
            noise = 1 + 0.2 * noise
        elif "embed_tokens" not in name:
            noise *= (7 if "head" in name else 1.2) / value.shape[-1] ** 0.5
        value.copy_(noise.bfloat16().float())
        if "head" in name:
            value[MASK] = 0  # never the best: the published loop would write the mask
    return model


def logits(model, tokens, order):
    """Rows of these positions in this order, each reading those before it. Without a mask of ones the class would take
    positions that do not ascend for the beginnings of other texts."""
    return model(torch.tensor([[tokens[p] for p in order]]), position_ids=torch.tensor([order]),
                 attention_mask=torch.ones(1, len(order)), use_cache=False).logits[0]


def in_order(decided):
    return [p for p, is_it in enumerate(decided) if is_it] + [p for p, is_it in enumerate(decided) if not is_it]


def by_windows(model, prompt, length, bound, window):
    begin, end = len(prompt), len(prompt) + length
    tokens, decided = list(prompt) + [MASK] * (length + window), [True] * begin + [False] * (length + window)
    forwards = 0
    while (first := decided.index(False)) < end and EOS not in tokens[begin:first]:
        order = in_order(decided[: first + window])
        masks = [p for p in order if not decided[p]]
        rows = logits(model, tokens, order)[-len(masks):]
        sums = torch.distributions.Categorical(logits=rows).entropy() + \
            FARTHER * torch.tensor([float(p - masks[0]) for p in masks])
        chosen = (sums < bound).nonzero().flatten().tolist() or [sums.argmin().item()]
        for i in chosen:
            tokens[masks[i]], decided[masks[i]] = rows[i].argmax().item(), True
        forwards += 1
    answer = tokens[begin:end]
    return (answer[: answer.index(EOS) + 1] if EOS in answer else answer), forwards


class Engine:
    """The published decoder and sampler over the class, everything computed again in every forward."""

    def __init__(self, checkout):
        for name in ("wedlm", "wedlm.engine"):
            sys.modules[name] = types.ModuleType(name)
            sys.modules[name].__path__ = [str(checkout / name.replace(".", "/"))]
        self.sequence = importlib.import_module("wedlm.engine.sequence")
        self.decoder = importlib.import_module("wedlm.engine.wedlm_decoder")
        sampler = importlib.import_module("wedlm.engine.sampler")
        self.sampler = sampler.Sampler()
        on_cpu = types.SimpleNamespace(**{name: getattr(torch, name) for name in ("tensor", "long", "cat", "int32")})
        on_cpu.device = lambda _: torch.device("cpu")
        self.decoder.torch = on_cpu
        self.sequence.Sequence.block_size = 4096

    def answer(self, model, prompt, length, bound, window):
        asked = types.SimpleNamespace(temperature=0, top_p=1.0, top_k=0, max_tokens=length, stop_token_ids=[EOS],
                                      wedlm_entropy_threshold=bound, wedlm_pos_penalty_factor=FARTHER)
        one = self.sequence.Sequence(list(prompt), asked)
        one.kv_budget = 4096
        decoder = self.decoder.WeDLMDecoder(MASK, 4096, window, self.sampler)
        decoder.initialize_states([one])
        state, text, forwards = one.wedlm_state, [], 0
        while not state.is_finished:
            decoder._refill_window_masks(one, state)
            ids, positions, first = decoder._prepare_window_inputs([state])
            before = list(prompt) + text
            rows = model(torch.cat([torch.tensor(before), ids])[None],
                         position_ids=torch.cat([torch.arange(len(before)), positions])[None],
                         attention_mask=torch.ones(1, len(before) + len(ids)),
                         use_cache=False).logits[0][len(before):]
            prepared = types.SimpleNamespace(active_seqs=[one], active_states=[state], active_indices=[0],
                                             per_seq_num_non_mask=first)
            text += decoder.process_decode_outputs([one], prepared, rows)[0] or []
            forwards += not state.is_finished  # the last one decides nothing
        return text[:length], forwards


def goldens(model, seed, engine):
    chance = random.Random(seed)

    def prompt(length):
        return [chance.randrange(3, MASK) for _ in range(length)]

    cases = []
    for length, behind in ((9, 16), (40, 16), (5, 0)):
        tokens = prompt(length) + [MASK if chance.random() < 0.6 else t for t in prompt(behind)]
        order = in_order([t != MASK for t in tokens])
        rows = logits(model, tokens, order)
        rows = [rows[order.index(p)].tolist() for p in range(max(len(tokens) - 16, 0), len(tokens))]
        cases.append(dict(ids=tokens, rows=[[round(x, 6) for x in row] for row in rows]))
    answers = []
    for length, gen, bound, window in ((9, 24, 0.4, 16), (30, 40, 1.0, 16), (70, 20, 2.0, 8), (1, 30, 0.4, 16),
                                       (12, 33, 1.5, 4), (33, 12, 0.0, 16)):
        ids = prompt(length)
        tokens, forwards = by_windows(model, ids, gen, bound, window)
        if engine:
            published = engine.answer(model, ids, gen, bound, window)
            if published != (tokens, forwards):
                raise SystemExit(f"the published engine gives {published}, the loop here {(tokens, forwards)}")
        answers.append(dict(prompt=ids, length=gen, bound=bound, window=window, tokens=tokens, forwards=forwards))
    return dict(logits=cases, answers=answers)


def write_folder(folder, kind, model):
    from safetensors.torch import save_file
    name, fields, keys = KINDS[kind]
    folder.mkdir(parents=True, exist_ok=True)
    config = dict(architectures=["WeDLMForCausalLM"], model_type="wedlm", hidden_act="silu", rope_theta=10000.0,
                  mask_token_id=MASK, dtype="bfloat16", **COMMON, **fields, **keys)
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    save_file({name: value.bfloat16().contiguous() for name, value in model.state_dict().items()},
              folder / "model.safetensors", metadata={"format": "pt"})


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "tests/data/wedlm")
    parser.add_argument("--checkout", type=pathlib.Path, help="a checkout of WeDLM")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(1)
    engine = Engine(args.checkout) if args.checkout else None
    found = {}
    for index, kind in enumerate(KINDS):
        model = build(kind, args.seed + index)
        found[kind] = goldens(model, args.seed + 10 + index, engine)
        write_folder(args.out / kind, kind, model)
    (args.out / "golden.json").write_text(json.dumps(dict(mask=MASK, models=found)))


if __name__ == "__main__":
    main()
