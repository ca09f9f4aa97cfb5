"""A mixture of experts from a trained dense model ("sparse upcycling", Komatsuzaki et al. 2023).

Attention, embedding, head and norms are copied. Every expert starts as a slice of the dense MLP's hidden units: a
random partition first, and where more experts are wanted than the partition has, more slices drawn at random. The
router starts at random. The dense model has no q/k norm; the mixture's starts at the mean RMS that the dense model's q
and k have, so that attention scores keep their scale.
"""
import torch

from model import MaskedDiffusionModel

# A dense MLP sums all its slices; the mixture averages a few of them. This factor on `down` makes up for part of that:
# the full ratio (12) would keep the mean of the output, but amplifies as much what differs between the slices.
# Measured before any training on the shipped dense weights, loss with random masks: 0.95 with a factor of 3, 0.86 with
# 5, 0.93 with 7, 1.33 with 12 (the dense model itself 0.08).
EXPERT_GAIN = 5.0
CALIBRATION_PROMPTS = 50


@torch.no_grad()
def head_rms(dense, tokenizer, examples):
    """-> {"q": (layers,), "k": (layers,)}: mean RMS of a head's vector over the examples, a few tokens masked."""
    seen = {(part, i): [] for part in "qk" for i in range(dense.config.layers)}

    def record(key):
        def hook(module, inputs, output):
            seen[key].append(output.unflatten(-1, (dense.config.heads, -1)).square().mean(-1).sqrt().mean())
        return hook

    hooks = [getattr(block.attn, part).register_forward_hook(record((part, i)))
             for i, block in enumerate(dense.blocks) for part in "qk"]
    for example in examples[:CALIBRATION_PROMPTS]:
        canvas = torch.tensor([tokenizer.chat(example.prompt) + tokenizer.encode(example.response)])
        canvas[0, -15:] = tokenizer.mask
        dense(canvas)
    for hook in hooks:
        hook.remove()
    return {part: torch.stack([torch.stack(seen[part, i]).mean() for i in range(dense.config.layers)]) for part in "qk"}


def expert_units(hidden, config, generator):
    """-> (experts, units) indices of the dense MLP's hidden units."""
    wanted, drawn = config.experts * config.ffn_width, []
    while sum(map(len, drawn)) < wanted:
        drawn.append(torch.randperm(hidden, generator=generator))
    return torch.cat(drawn)[:wanted].view(config.experts, config.ffn_width)


@torch.no_grad()
def upcycle(dense, config, tokenizer, examples, seed):
    """dense: a trained model on the CPU; config: see model.mixture_of. -> the mixture, untrained"""
    mixture = MaskedDiffusionModel(config).initialize(seed)
    same_shape = {name: value for name, value in dense.state_dict().items() if ".mlp." not in name}
    mixture.load_state_dict(same_shape, strict=False)
    generator = torch.Generator().manual_seed(seed)
    scales = head_rms(dense, tokenizer, examples)
    for i, (old, new) in enumerate(zip(dense.blocks, mixture.blocks)):
        units = expert_units(dense.config.ffn_width, config, generator)
        new.mlp.gate.copy_(old.mlp.gate.weight[units])
        new.mlp.up.copy_(old.mlp.up.weight[units])
        new.mlp.down.copy_(old.mlp.down.weight[:, units].permute(1, 0, 2) * EXPERT_GAIN)
        new.attn.q_norm.weight.fill_(scales["q"][i])
        new.attn.k_norm.weight.fill_(scales["k"][i])
    return mixture
