#!/usr/bin/env python3
"""Dream against its published code, or against Qwen2 of the package transformers without its causal mask.

Dream is Qwen2 (Dream 7B, 2508.15487): the same layers and names, every position seeing all, and the row before a
position predicting it. Without --checkout the layers come from transformers, and the loop below is Dream's sampler
written again from its description. With --checkout DIR, a folder (or a checkout with dream/model in it) that holds
modeling_dream.py, configuration_dream.py and generation_utils.py, both are the published ones.

    tools/upstream/dream.py
    tools/upstream/dream.py --checkout Fast-dLLM
"""
import sys

import torch

import common
from common import EOS, MASK, VOCABULARY

RULES = {"entropy": "dream-entropy", "topk_margin": "dream-margin", "maskgit_plus": "dream-maskgit"}
GEOMETRIES = {
    "grouped 4/2, heads of 16": dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=2, intermediate_size=96),
    "tied, 8/1, heads of 8": dict(hidden_size=64, num_attention_heads=8, num_key_value_heads=1, intermediate_size=160,
                                  tie_word_embeddings=True),
    "heads of 64, odd feed-forward": dict(hidden_size=256, num_attention_heads=4, num_key_value_heads=4,
                                          intermediate_size=210, rope_theta=1e6),
    "32 heads by default, keys missing": dict(hidden_size=128, num_attention_heads=32, intermediate_size=128),
}
MISSING = ("num_key_value_heads", "rms_norm_eps", "rope_theta", "rope_parameters", "max_position_embeddings")


def shifted(logits):
    return torch.cat([logits[:1], logits[:-1]])


def sample(forward, prompt, gen, steps, rule):
    """Greedy; single precision, as the published code computes its schedule."""
    x = torch.tensor(prompt + [MASK] * gen)
    t = torch.linspace(1, 1e-3, steps + 1)
    for i in range(steps):
        masks = (x == MASK).nonzero().flatten()
        p = torch.softmax(shifted(forward(x))[masks], -1)
        best = p.topk(2, -1)
        confidence = {"entropy": (p * torch.log(p + 1e-10)).sum(-1), "topk_margin": best.values[:, 0] - best.values[:, 1],
                      "maskgit_plus": best.values[:, 0]}[rule]
        due = int(torch.tensor(float(len(masks))) * (1 - t[i + 1] / t[i])) if i < steps - 1 else len(masks)
        chosen = confidence.topk(due).indices
        x[masks[chosen]] = best.indices[chosen, 0]
    return x[len(prompt):].tolist()


def qwen2(fields):
    from transformers import Qwen2Config, Qwen2ForCausalLM
    model = Qwen2ForCausalLM(Qwen2Config(num_hidden_layers=2, vocab_size=VOCABULARY, attn_implementation="eager",
                                         max_position_embeddings=256, **fields)).float().eval()

    def forward(x):
        everything = torch.zeros(1, 1, len(x), len(x))  # added to the scores: nothing is hidden
        return model(x[None], attention_mask=everything, use_cache=False).logits[0]

    return model, forward, lambda *run: sample(forward, *run)


def published(folder, fields):
    module = common.load(folder, "modeling_dream")
    model = module.DreamModel(module.DreamConfig(num_hidden_layers=2, vocab_size=VOCABULARY, mask_token_id=MASK,
                                                 attn_implementation="sdpa", max_position_embeddings=256,
                                                 pad_token_id=EOS, **fields)).float().eval()

    def generate(prompt, gen, steps, rule):
        out = model.diffusion_generate(torch.tensor([prompt]), max_new_tokens=gen, steps=steps, alg=rule,
                                       temperature=0.0, mask_token_id=MASK, pad_token_id=EOS, eos_token_id=EOS)
        return out[0, len(prompt):].tolist()

    return model, lambda x: model(x[None], "full", None).logits[0], generate


def work(args):
    folder = args.checkout and common.place(args.checkout, "modeling_dream", "dream/model")
    table = common.Comparison("Dream: " + ("its published classes" if folder else "Qwen2 of transformers, all visible"),
                              args)
    for index, (name, fields) in enumerate(GEOMETRIES.items()):
        if args.quick and index % 2:
            continue
        with table.model(name) as path:
            model, forward, generate = published(folder, fields) if folder else qwen2(fields)
            common.randomise(model, args.seed + index)
            model.tie_weights()
            common.save(path, model, "DreamModel", without=MISSING if "missing" in name else ())
            canvas = table.canvas(60)
            table.logits(forward(torch.tensor(canvas)), common.our_logits(args.llada, path, canvas))
            runs = [(20, 24, 24, "entropy"), (7, 24, 9, "maskgit_plus"), (13, 16, 40, "topk_margin"),
                    (5, 32, 31, "entropy")]
            for length, gen, steps, rule in runs[: 1 if args.quick else None]:
                prompt = table.prompt(length)
                ours, _ = common.our_ids(args.llada, path, prompt, "--gen-length", gen, "--block-length", gen,
                                         "--steps", steps, "--accept", RULES[rule])
                table.ids(generate(prompt, gen, steps, rule), ours)
    return table.report()


if __name__ == "__main__":
    sys.exit(common.main(work, common.arguments(__doc__, "Dream's model code").parse_args()))
