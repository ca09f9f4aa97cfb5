"""A larger dense model that computes what a finished one computes: new layers add nothing to the residual stream and new
hidden units are not read, since the projections back are zero; training takes it from there.
"""
import dataclasses

import torch

from model import MaskedDiffusionModel

# The new model's layers, each the index of an old one or None: a new layer, among those that look things up.
LAYERS = (0, 1, 2, 3, None, 4, 5, None)


def grow(old, layers=LAYERS, ffn_width=1024, context=1024, seed=0, attention_block=0):
    """-> a dense model with these layers, FFN width and context; with another attention_block it computes something
    else."""
    config = dataclasses.replace(old.config, layers=len(layers), ffn_width=ffn_width, context=context,
                                 attention_block=attention_block)
    model = MaskedDiffusionModel(config).initialize(seed)
    with torch.no_grad():
        for name in ("embed", "norm", "head"):
            getattr(model, name).load_state_dict(getattr(old, name).state_dict())
        for block, source in zip(model.blocks, layers):
            if source is None:
                block.attn.o.weight.zero_()
                block.mlp.down.weight.zero_()
                continue
            theirs, units = old.blocks[source], old.config.ffn_width
            for part in ("attn", "attn_norm", "ff_norm"):
                getattr(block, part).load_state_dict(getattr(theirs, part).state_dict())
            block.mlp.gate.weight[:units] = theirs.mlp.gate.weight
            block.mlp.up.weight[:units] = theirs.mlp.up.weight
            block.mlp.down.weight[:, :units] = theirs.mlp.down.weight
            block.mlp.down.weight[:, units:] = 0
    return model
