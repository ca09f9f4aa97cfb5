#!/usr/bin/env python3
"""LLaDA against its published code.

--checkout DIR: a folder, or a checkout with llada/model in it, that holds modeling_llada.py and configuration_llada.py
(they come with the published weights; Fast-dLLM's repository has a copy). --generate FILE: generate.py of LLaDA's own
repository; without it only logits are compared.

    tools/upstream/llada.py --checkout Fast-dLLM --generate LLaDA/generate.py
"""
import pathlib
import sys

import torch

import common
from common import EOS, MASK, VOCABULARY

BASE = dict(n_layers=2, block_type="llama", rope=True, layer_norm_type="rms", activation_type="silu", alibi=False,
            include_bias=False, bias_for_layer_norm=False, attention_dropout=0.0, residual_dropout=0.0,
            embedding_dropout=0.0, max_sequence_length=256, vocab_size=VOCABULARY, embedding_size=VOCABULARY,
            init_device="cpu", weight_tying=False, rope_theta=500000.0, flash_attention=False)
GEOMETRIES = {
    "heads of 16": dict(d_model=64, n_heads=4, mlp_hidden_size=96),
    "tied, grouped 8/2": dict(d_model=128, n_heads=8, n_kv_heads=2, mlp_hidden_size=200, weight_tying=True),
    "biases on q, k, v": dict(d_model=64, n_heads=2, mlp_hidden_size=160, include_qkv_bias=True),
    "heads of 64, padded vocabulary": dict(d_model=256, n_heads=4, mlp_hidden_size=210, vocab_size=310),
    "keys missing, so tied": dict(d_model=64, n_heads=4, mlp_hidden_size=None, mlp_ratio=4, rope_theta=10000.0,
                                  weight_tying=True),
}
MISSING = ("weight_tying", "rope_theta", "n_kv_heads", "rms_norm_eps", "mlp_hidden_size", "include_qkv_bias", "alibi",
           "include_bias", "multi_query_attention")


def build(folder, fields):
    config_module = common.load(folder, "configuration_llada")
    module = common.load(folder, "modeling_llada")
    config = config_module.LLaDAConfig(**{**BASE, **fields}, mask_token_id=MASK, eos_token_id=EOS, pad_token_id=EOS)
    return module.LLaDAModelLM(config, init_params=True).float().eval()


def work(args):
    folder = common.place(args.checkout, "modeling_llada", "llada/model")
    generate = args.generate and common.load(args.generate.parent, args.generate.stem).generate
    table = common.Comparison("LLaDA: its published classes", args)
    for index, (name, fields) in enumerate(GEOMETRIES.items()):
        if args.quick and index % 2:
            continue
        with table.model(name) as path:
            model = build(folder, fields)
            common.randomise(model, args.seed + index)
            common.save(path, model, "LLaDAModelLM", without=MISSING if "missing" in name else ())
            canvas = table.canvas(70)
            table.logits(model(torch.tensor([canvas])).logits[0], common.our_logits(args.llada, path, canvas))
            if not generate:
                continue
            # steps, gen, block: one token a step; several; a remainder.
            runs = [(20, 32, 32, 16), (11, 8, 32, 8), (6, 20, 48, 24), (30, 10, 40, 20)]
            common.generations(table, args, path, generate, model, runs)
    return table.report()


if __name__ == "__main__":
    parser = common.arguments(__doc__, "LLaDA's model code")
    parser.add_argument("--generate", type=pathlib.Path, help="generate.py of LLaDA's repository")
    given = parser.parse_args()
    if given.checkout is None:
        parser.error("--checkout is needed")
    sys.exit(common.main(work, given))
