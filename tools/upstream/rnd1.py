#!/usr/bin/env python3
"""RND1's own class, configuration and sampler beside this program.

The class is transformers' mixture of Qwen3 without its causal mask; where the installed package is older than Qwen3's
mixture, the same parts of Qwen2's stand in for them. The sampler is called without draws, at temperature 1: of the masks
those of the highest entropy stay. config.json is written as the class writes it, `"rope_scaling": false` included.
--checkout DIR: a checkout of RND1.

    tools/setup.sh upstream && build/venv/bin/python tools/upstream/rnd1.py --checkout RND1
"""
import importlib.util
import sys

import torch

import common
from common import EOS, MASK, VOCABULARY

SIZES = dict(vocab_size=VOCABULARY, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=32, max_position_embeddings=512, num_experts=8, num_experts_per_tok=3,
             moe_intermediate_size=32, pad_token_id=EOS, eos_token_id=EOS)
MODELS = {
    "RND1": {},
    "gates as they are": dict(norm_topk_prob=False),
    "one key of four heads, heads of 16, every expert": dict(num_key_value_heads=1, head_dim=16, num_experts_per_tok=8),
    "three layers, another base": dict(num_hidden_layers=3, rope_theta=5000.0, num_experts=5, num_experts_per_tok=1),
}
RUNS = [(16, 24, 24), (9, 32, 8), (40, 33, 11), (1, 48, 20)]  # prompt, length of the answer, steps


def older_package():
    """Qwen3's mixture out of Qwen2's, whose parts that the class imports are the same."""
    if importlib.util.find_spec("transformers.models.qwen3_moe") is not None:
        return
    from transformers.models.qwen2_moe import modeling_qwen2_moe as parts
    common.stand_in("transformers.models.qwen3_moe.modeling_qwen3_moe", Qwen3MoeConfig=parts.Qwen2MoeConfig,
                    Qwen3MoeMLP=parts.Qwen2MoeMLP, Qwen3MoeRMSNorm=parts.Qwen2MoeRMSNorm,
                    Qwen3MoeRotaryEmbedding=parts.Qwen2MoeRotaryEmbedding,
                    apply_rotary_pos_emb=parts.apply_rotary_pos_emb, repeat_kv=parts.repeat_kv)


def model_of(published, fields):
    config = published.RND1Config(attn_implementation="eager")
    for key, value in {**SIZES, "rope_scaling": None, **fields}.items():  # the class sets its own defaults last
        setattr(config, key, value)
    return published.RND1LM(config).float().eval()


class Counted:
    def __init__(self, model):
        self.model, self.forwards = model, 0

    def eval(self):
        return self

    def __call__(self, input_ids):
        self.forwards += 1
        return self.model(input_ids=input_ids)


def generations(table, args, path, model, sample):
    for length, count, steps in RUNS[: 1 if args.quick else None]:
        prompt, wrapped = table.prompt(length), Counted(model)
        theirs = sample(wrapped, seq_len=length + count, num_steps=steps, temperature=1.0, greedy=True, mask_token_id=MASK,
                        prefix_ids=torch.tensor([prompt]), eos_token_id=None, pad_token_id=EOS + 1, device="cpu")
        ours, nfe = common.our_ids(args.llada, path, prompt, "--accept", "rnd1", "--gen-length", count, "--block-length",
                                   count, "--steps", steps)
        table.ids(theirs[0, length:].tolist(), ours, (wrapped.forwards, nfe))


def work(args):
    older_package()
    folder = common.place(args.checkout, "modeling_rnd", "rnd")
    published, sampling = common.load(folder, "modeling_rnd"), common.load(folder, "sampling")
    table = common.Comparison("RND1's own class and sampler", args)
    for index, (name, fields) in enumerate(MODELS.items()):
        if args.quick and index % 2:
            continue
        with table.model(name) as path:
            model = model_of(published, fields)
            common.randomise(model, args.seed + index)
            common.save(path, model, "RND1LM", {**model.config.to_dict(), "rope_scaling": False})
            canvas = table.canvas(75)
            table.logits(model(torch.tensor([canvas])).logits[0], common.our_logits(args.llada, path, canvas))
            generations(table, args, path, model, sampling.diffusion_sample)
    return table.report()


if __name__ == "__main__":
    parser = common.arguments(__doc__, checkout="a checkout of RND1")
    arguments = parser.parse_args()
    if arguments.checkout is None:
        parser.error("--checkout DIR is needed")
    sys.exit(common.main(work, arguments))
