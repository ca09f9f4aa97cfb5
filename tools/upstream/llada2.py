#!/usr/bin/env python3
"""LLaDA2.0 against its published code.

--checkout DIR: a folder that holds modeling_llada2_moe.py and configuration_llada2_moe.py (they come with the published
weights), or a checkout of dFactory with models/llada2_moe. The loop is the class's own generate(). dFactory's copy of it
draws its tokens even at temperature 0, so the draw is replaced by the best token and its probability, which is what the
copy beside the weights does at temperature 0. LLaDA2.1's loop with editing is in neither: it is taken from the package
diffusers (LLaDA2Pipeline) where that is installed, over the same class.

    tools/upstream/llada2.py --checkout dFactory
"""
import sys

import torch

import common
from common import EOS, MASK, VOCABULARY

BLOCK = 32
BASE = dict(num_hidden_layers=2, vocab_size=VOCABULARY, max_position_embeddings=512, hidden_size=64,
            num_attention_heads=4, num_key_value_heads=2, intermediate_size=96, moe_intermediate_size=32,
            num_experts=16, num_experts_per_tok=4, num_shared_experts=1, n_group=4, topk_group=2,
            routed_scaling_factor=2.5, first_k_dense_replace=1, rms_norm_eps=1e-6, rope_theta=600000.0,
            partial_rotary_factor=0.5, use_bias=False, use_qkv_bias=False, embedding_dropout=0.0, output_dropout=0.0,
            attention_dropout=0.0, pad_token_id=EOS, eos_token_id=EOS, attn_implementation="sdpa",
            moe_router_enable_expert_bias=True, score_function="sigmoid", norm_topk_prob=True)
GEOMETRIES = {
    "16 experts in 4 groups": dict(),
    "one expert used": dict(num_experts_per_tok=1),
    "norm_topk_prob false, which is not read": dict(norm_topk_prob=False),
    "all dimensions rotate, no dense layer, tied": dict(partial_rotary_factor=1.0, first_k_dense_replace=0,
                                                        tie_word_embeddings=True),
    "heads of 32, rotary_dim that is not read": dict(head_dim=32, rotary_dim=32, num_key_value_heads=1),
    "keys missing": dict(num_experts=32, n_group=8, topk_group=4, rms_norm_eps=1e-5, rope_theta=10000.0,
                         first_k_dense_replace=0, num_shared_experts=0, num_experts_per_tok=2),
}
MISSING = ("partial_rotary_factor", "n_group", "topk_group", "routed_scaling_factor", "rms_norm_eps", "rope_theta",
           "first_k_dense_replace", "num_shared_experts", "num_experts_per_tok", "tie_word_embeddings",
           "max_position_embeddings")


def classes(checkout):
    import transformers.utils.logging
    common.stand_in("veomni.ops", causallm_loss_function=None, fused_moe_forward=None)
    common.stand_in("veomni.distributed.parallel_state", get_parallel_state=None)
    common.stand_in("veomni.utils.import_utils", is_liger_kernel_available=lambda: False)
    common.stand_in("veomni.utils", logging=transformers.utils.logging)
    folder = common.place(checkout, "modeling_llada2_moe", "models/llada2_moe")
    module = common.load(folder, "modeling_llada2_moe")
    return module.LLaDA2MoeModelLM, module.LLaDA2MoeModelLM.config_class


def build(model_class, config_class, fields):
    config = config_class(**{**BASE, **fields})
    config.model_type = "llada2_moe"  # experts one by one, as in the published folders
    model = model_class(config).float().eval()
    forward, counter = model.forward, [0]

    def counted(ids, attention_mask=None, **others):
        counter[0] += 1
        return forward(ids, attention_mask=attention_mask.float(), **others)

    def best(logits, **_):
        p = torch.softmax(logits.float(), -1).max(-1)
        return p.indices, p.values

    model.forward, model._sample_with_temperature_topk_topp = counted, best
    return model, counter


def editing_pipeline(model):
    """LLaDA2.1's loop; None where diffusers is not installed. Its mask of positions is replaced by the blocks'."""
    try:
        from diffusers import BlockRefinementScheduler, LLaDA2Pipeline
    except ImportError:
        return None

    class InBlocks(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, ids, attention_mask=None, position_ids=None):
            return self.model.forward(ids, attention_mask=block_causal(ids.shape[1]), position_ids=position_ids)

    class OnTheProcessor(LLaDA2Pipeline):
        _execution_device = torch.device("cpu")

    pipeline = OnTheProcessor(model=InBlocks(), scheduler=BlockRefinementScheduler(), tokenizer=None)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def block_causal(length):
    blocks = torch.arange(length) // BLOCK
    return torch.where(blocks[None, :] <= blocks[:, None], 0.0, float("-inf"))[None, None]


def work(args):
    model_class, config_class = classes(args.checkout)
    table = common.Comparison("LLaDA2: its published classes", args)
    for index, (name, fields) in enumerate(GEOMETRIES.items()):
        if args.quick and index % 2:
            continue
        with table.model(name) as path:
            model, forwards = build(model_class, config_class, fields)
            common.randomise(model, args.seed + index)
            model.tie_weights()
            common.save(path, model, "LLaDA2MoeModelLM", without=MISSING if "missing" in name else ())
            canvas = table.canvas(3 * BLOCK)
            theirs = model.forward(torch.tensor([canvas]), attention_mask=block_causal(len(canvas))).logits[0]
            table.logits(theirs, common.our_logits(args.llada, path, canvas))
            # prompt, gen, steps of a block, threshold: prompts that end inside a block, fewer steps than positions
            runs = [(20, 44, 8, 0.95), (32, 32, 32, 0.5), (5, 59, 32, 0.3), (40, 24, 5, 0.6)]
            for length, gen, steps, threshold in runs[: 1 if args.quick else None]:
                prompt = table.prompt(length)
                forwards[0] = 0
                theirs = model.generate(torch.tensor([prompt]), block_length=BLOCK, steps=steps, gen_length=gen,
                                        threshold=threshold, eos_id=-1, mask_id=MASK)[0].tolist()
                blocks_run = -(-(length + gen) // BLOCK) - length // BLOCK
                ours, nfe = common.our_ids(args.llada, path, prompt, "--accept", "llada2", "--threshold", threshold,
                                           "--gen-length", gen, "--block-length", BLOCK, "--steps", steps * blocks_run)
                theirs = theirs[length:] if theirs[:length] == prompt else theirs
                table.ids(theirs[:gen], ours[:gen], (forwards[0], nfe))
            # A tied head may predict the mask, which that loop then writes over committed tokens.
            pipeline = None if model.config.tie_word_embeddings else editing_pipeline(model)
            edits = [(20, 44, 0.7, 0.5), (40, 56, 0.5, 0.3), (32, 32, 0.3, 0.2)] if pipeline else []
            for length, gen, threshold, edit in edits[: 1 if args.quick else None]:
                prompt = table.prompt(length)
                forwards[0] = 0
                # The pipeline runs one edit more than it is told; the copies beside the weights run 16.
                theirs = pipeline(input_ids=torch.tensor([prompt]), gen_length=gen, block_length=BLOCK,
                                  num_inference_steps=BLOCK, threshold=threshold, editing_threshold=edit,
                                  sampling_method="greedy", max_post_steps=15, eos_early_stop=False, eos_token_id=-1, mask_token_id=MASK,
                                  output_type="seq").sequences[0].tolist()
                ours, nfe = common.our_ids(args.llada, path, prompt, "--threshold", threshold, "--edit-threshold", edit,
                                           "--gen-length", gen, "--block-length", BLOCK)
                table.ids(theirs[-gen:], ours, (forwards[0], nfe))
    return table.report()


if __name__ == "__main__":
    parser = common.arguments(__doc__, "LLaDA2's model code")
    given = parser.parse_args()
    if given.checkout is None:
        parser.error("--checkout is needed")
    sys.exit(common.main(work, given))
