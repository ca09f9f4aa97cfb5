#!/usr/bin/env python3
"""Nemotron-Labs-Diffusion: Ministral 3's class of the package transformers, with the masks of its three ways to decode.

Writes tests/data/nemotron: a small model of random weights as a folder (config.json with the family's keys,
model.safetensors with its tensor names) and as a GGUF of the architecture mistral3 as llama.cpp's converter writes it
(model.gguf: q and k permuted), and what the class computes from it in 32-bit floats (golden.json): logits of a block
behind causal text and of causal text alone, and whole answers: one token after the other, in blocks, and drafted in
blocks and verified causally. Positions go beyond the original context, so that YaRN and the scale of queries count.
The loops stand here and are written from a description of the published ones.

    tools/upstream/nemotron.py [--out tests/data/nemotron]
"""
import argparse
import json
import pathlib
import random

import torch

from diffusion_gemma import BOOL, F32, ROOT, STRING, U32, write_gguf

VOCABULARY, MASK, EOS, BLOCK, ORIGINAL = 96, 90, 1, 8, 24
CONFIG = dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=2, head_dim=16, max_position_embeddings=4 * ORIGINAL, rms_norm_eps=1e-5,
              pad_token_id=EOS, bos_token_id=2, eos_token_id=EOS,
              rope_parameters=dict(rope_type="yarn", rope_theta=1000000.0, factor=4.0,
                                   original_max_position_embeddings=ORIGINAL, beta_fast=4.0, beta_slow=1.0, mscale=1.0,
                                   mscale_all_dim=1.0, llama_4_scaling_beta=0.5))


def build(seed):
    from transformers import Ministral3Config, Ministral3ForCausalLM
    config = Ministral3Config(**CONFIG)
    config._attn_implementation = "eager"
    model = Ministral3ForCausalLM(config).float().eval()
    generator = torch.Generator().manual_seed(seed)
    for name, value in sorted(model.named_parameters()):
        noise = torch.randn(value.shape, generator=generator)
        if value.dim() == 1:
            noise = 1 + 0.2 * noise
        elif "embed_tokens" not in name:
            noise *= (4 if "head" in name else 1.2) / value.shape[-1] ** 0.5
        value.copy_(noise.bfloat16().float())
    return model


def logits(model, ids, causal_below):
    """A row of each position: those below see what is before them, the others all."""
    query, key = torch.arange(len(ids))[:, None], torch.arange(len(ids))[None, :]
    sees = (key <= query) | (query >= causal_below)
    mask = torch.where(sees, 0.0, float("-inf"))[None, None]
    return model(torch.tensor([ids]), attention_mask=mask, use_cache=False).logits[0]


def best(row):
    """The best token that is not the mask, and its probability."""
    others = row.clone()
    others[MASK] = float("-inf")
    token = others.argmax().item()
    return token, torch.softmax(row.double(), -1)[token].item()


def autoregressive(model, prompt, length):
    ids = list(prompt)
    for _ in range(length):
        ids.append(best(logits(model, ids, len(ids))[-1])[0])
    return ids[len(prompt):], length


def in_blocks(model, prompt, length, threshold):
    ids, forwards = list(prompt), 0
    while len(ids) < len(prompt) + length:
        canvas = ids + [best(logits(model, ids, len(ids))[-1])[0]] + [MASK] * (BLOCK - 1)
        forwards += 1
        while MASK in canvas:
            rows = logits(model, canvas, len(ids))
            forwards += 1
            guesses = {p: best(rows[p]) for p, token in enumerate(canvas) if token == MASK}
            surest = max(guesses, key=lambda p: guesses[p][1])
            for p, (token, probability) in guesses.items():
                if probability >= threshold or p == surest:
                    canvas[p] = token
        ids = canvas
    return ids[len(prompt):], forwards


def verified(model, prompt, length):
    end = len(prompt) + length
    ids, forwards = list(prompt) + [best(logits(model, prompt, len(prompt))[-1])[0]], 1
    while len(ids) < end:
        # The last token and masks behind it see each other and the text before them.
        canvas = (ids + [MASK] * (BLOCK - 1))[:end]
        rows = logits(model, canvas, len(ids) - 1)
        draft = [best(rows[p])[0] for p in range(len(ids), len(canvas))]
        causal = [best(row)[0] for row in logits(model, ids + draft, len(canvas))[len(ids) - 1:]]
        forwards += 2
        same = 0
        while same < len(draft) and draft[same] == causal[same]:
            same += 1
        ids = (ids + causal[:same + 1])[:end]
    return ids[len(prompt):], forwards


def chain(model, prompt, text):
    """The log-probability of each token where those before it are there and the rest of its block is not."""
    out = []
    for i, token in enumerate(text):
        begin = len(prompt) + i // BLOCK * BLOCK
        canvas = prompt + text[:i] + [MASK] * (begin + BLOCK - len(prompt) - i)
        row = logits(model, canvas, begin)[len(prompt) + i].double()
        out.append(torch.log_softmax(row, -1)[token].item())
    return out


def goldens(model, seed):
    chance = random.Random(seed)

    def prompt(length):
        return [chance.randrange(3, MASK) for _ in range(length)]

    cases = []
    for length, masks in ((11, 8), (30, 8), (37, 0)):
        ids = prompt(length) + [MASK] * masks
        rows = logits(model, ids, length)[-9:]
        cases.append(dict(ids=ids, rows=[[round(x, 6) for x in row] for row in rows.tolist()]))
    answers = []
    for length, gen, threshold in ((9, 24, 0.2), (24, 24, 0.3), (33, 16, 0.9), (1, 16, 0.1)):
        ids = prompt(length)
        one = dict(prompt=ids, length=gen, threshold=threshold)
        for name, (tokens, forwards) in dict(blocks=in_blocks(model, ids, gen, threshold),
                                             verified=verified(model, ids, gen),
                                             autoregressive=autoregressive(model, ids, gen)).items():
            one[name] = dict(tokens=tokens, forwards=forwards)
        assert one["verified"]["tokens"] == one["autoregressive"]["tokens"]
        answers.append(one)
    scores = []
    for length, texts in ((10, (19, 3)), (40, (8, 12, 1))):
        ids = prompt(length)
        scores.append(dict(prompt=ids, texts=[dict(tokens=text, log_probabilities=chain(model, ids, text))
                                              for text in map(prompt, texts)]))
    return dict(mask=MASK, block=BLOCK, logits=cases, answers=answers, scores=scores)


LEAVES = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
          "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
          "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
GLOBALS = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def metadata():
    arch, rope = "mistral3.", CONFIG["rope_parameters"]
    yield "general.architecture", STRING, "mistral3"
    yield "general.name", STRING, "tiny"
    for key, name in [("block_count", "num_hidden_layers"), ("context_length", "max_position_embeddings"),
                      ("embedding_length", "hidden_size"), ("feed_forward_length", "intermediate_size"),
                      ("attention.head_count", "num_attention_heads"), ("attention.key_length", "head_dim"),
                      ("attention.head_count_kv", "num_key_value_heads"), ("attention.value_length", "head_dim"),
                      ("rope.dimension_count", "head_dim"), ("vocab_size", "vocab_size")]:
        yield arch + key, U32, CONFIG[name]
    yield arch + "attention.layer_norm_rms_epsilon", F32, CONFIG["rms_norm_eps"]
    yield arch + "attention.temperature_scale", F32, rope["llama_4_scaling_beta"]
    yield arch + "rope.freq_base", F32, rope["rope_theta"]
    yield arch + "rope.scaling.type", STRING, "yarn"
    yield arch + "rope.scaling.factor", F32, rope["factor"]
    yield arch + "rope.scaling.yarn_beta_fast", F32, rope["beta_fast"]
    yield arch + "rope.scaling.yarn_beta_slow", F32, rope["beta_slow"]
    yield arch + "rope.scaling.yarn_log_multiplier", F32, rope["mscale_all_dim"]
    yield arch + "rope.scaling.original_context_length", U32, rope["original_max_position_embeddings"]
    yield "tokenizer.ggml.add_bos_token", BOOL, True


def tensors(model):
    for name, value in model.state_dict().items():
        stem = name.removesuffix(".weight")
        if stem in GLOBALS:
            yield f"{GLOBALS[stem]}.weight", value
            continue
        _, _, layer, leaf = stem.split(".", 3)
        heads = {"attn_q": CONFIG["num_attention_heads"], "attn_k": CONFIG["num_key_value_heads"]}.get(LEAVES[leaf])
        if heads:  # elements that rotate together side by side
            value = value.view(heads, 2, -1, value.shape[-1]).transpose(1, 2).reshape(value.shape)
        yield f"blk.{layer}.{LEAVES[leaf]}.weight", value


def write_folder(folder, model):
    from safetensors.torch import save_file
    fields = dict(architectures=["NemotronLabsDiffusionModel"], model_type="nemotron_labs_diffusion", hidden_act="silu",
                  tie_word_embeddings=False, mask_token_id=MASK, block_size=BLOCK, dlm_paradigm="sbd_block_diff",
                  dtype="bfloat16", **CONFIG)
    (folder / "config.json").write_text(json.dumps(fields, indent=1))
    weights = {}
    for name, value in model.state_dict().items():
        name = "diffusion_head.weight" if name == "lm_head.weight" else name.replace("model.", "encoder.", 1)
        weights[name] = value.bfloat16().contiguous()
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "tests/data/nemotron")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = build(args.seed)
    folder = args.out / "folder"
    folder.mkdir(parents=True, exist_ok=True)
    (args.out / "golden.json").write_text(json.dumps(goldens(model, args.seed + 1)))
    write_folder(folder, model)
    write_gguf(args.out / "model.gguf", metadata(), tensors(model))


if __name__ == "__main__":
    main()
