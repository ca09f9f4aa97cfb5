#!/usr/bin/env python3
"""LLaDA-MoE against its published code.

--checkout DIR: a folder that holds modeling_lladamoe.py (it comes with the published weights), or a checkout of dInfer,
whose tools/modeling_fused_lladamoe.py has the same classes beside fused ones; the plain ones are used. --generate FILE:
generate.py of LLaDA's repository, which LLaDA-MoE is decoded with.

    tools/upstream/llada_moe.py --checkout dInfer --generate LLaDA/generate.py
"""
import pathlib
import sys

import torch

import common
from common import EOS, VOCABULARY

BASE = dict(num_hidden_layers=2, vocab_size=VOCABULARY, max_position_embeddings=256, dense_intermediate_size=64,
            shared_expert_intermediate_size=None, moe_layer_freq=[1, 1], partial_rotary_factor=1, rope_theta=50000.0,
            moe_router_score_function="softmax", moe_router_enable_expert_bias=False, qk_layernorm=True,
            norm_topk_prob=False, hidden_size=64, num_attention_heads=4, num_experts=8, num_experts_per_tok=2,
            expert_intermediate_size=32, pad_token_id=EOS, eos_token_id=EOS, attn_implementation="eager")
GEOMETRIES = {
    "8 experts, 2 used": dict(),
    "norm_topk_prob true, which is not read": dict(norm_topk_prob=True, num_experts_per_tok=4),
    "one expert used, no norms on q and k": dict(num_experts_per_tok=1, qk_layernorm=False, norm_topk_prob=True),
    "16 experts, all used, tied": dict(num_experts=16, num_experts_per_tok=16, tie_word_embeddings=True),
    "grouped 8/2, experts of 50, keys missing": dict(hidden_size=128, num_attention_heads=8, num_key_value_heads=2,
                                                     expert_intermediate_size=50),
}
MISSING = ("rms_norm_eps", "norm_topk_prob", "tie_word_embeddings", "partial_rotary_factor", "attention_bias",
           "routed_scaling_factor", "moe_router_score_function", "shared_expert_intermediate_size")


def classes(checkout):
    """The model class and its configuration's."""
    try:
        folder = common.place(checkout, "modeling_lladamoe")
        module = common.load(folder, "modeling_lladamoe")
        return module.LLaDAMoEModelLM, module.LLaDAMoEModelLM.config_class
    except common.Unavailable:
        pass
    folder = common.place(checkout, "modeling_fused_lladamoe", "tools")
    common.stand_in(common.package_of(folder) + ".fuse_moe", fused_moe=None)  # a GPU's kernel
    module = common.load(folder, "modeling_fused_lladamoe")
    module.FusedLLaDAMoESparseMoeBlock = module.LLaDAMoESparseMoeBlock
    return module.FusedLLaDAMoEModelLM, module.FusedLLaDAMoEModelLM.config_class


def work(args):
    model_class, config_class = classes(args.checkout)
    generate = args.generate and common.load(args.generate.parent, args.generate.stem).generate
    table = common.Comparison("LLaDA-MoE: its published classes", args)
    for index, (name, fields) in enumerate(GEOMETRIES.items()):
        if args.quick and index % 2:
            continue
        with table.model(name) as path:
            model = model_class(config_class(**{**BASE, **fields})).float().eval()
            common.randomise(model, args.seed + index)
            model.tie_weights()
            common.save(path, model, "LLaDAMoEModelLM", without=MISSING if "missing" in name else ())
            canvas = table.canvas(70)
            table.logits(model(torch.tensor([canvas])).logits[0], common.our_logits(args.llada, path, canvas))
            if not generate:
                continue
            common.generations(table, args, path, generate, model, [(20, 32, 32, 16), (11, 8, 32, 8), (30, 10, 40, 20)])
    return table.report()


if __name__ == "__main__":
    parser = common.arguments(__doc__, "LLaDA-MoE's model code")
    parser.add_argument("--generate", type=pathlib.Path, help="generate.py of LLaDA's repository")
    given = parser.parse_args()
    if given.checkout is None:
        parser.error("--checkout is needed")
    sys.exit(common.main(work, given))
