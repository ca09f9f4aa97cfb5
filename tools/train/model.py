"""The network: LLaDA's block (pre-RMSNorm, bidirectional attention with RoPE, SwiGLU, no biases), dense or with a
mixture of experts as in LLaDA-MoE (softmax router over all experts, the best `experts_used` renormalised, RMSNorm per
head on q and k before RoPE). Plain f32 unless the caller autocasts.

Shapes: B sequences, T positions, D = width, H heads of K = D / H elements, E experts of F hidden units, V = vocab.
Deliberately absent: KV cache, dropout, grouped-query attention, shared experts.
"""
import dataclasses
import math

import torch
from torch import nn
from torch.nn import functional as F

# Layers whose first head training can guide (lookup_loss): one finds the key that stands beside a result, the later ones
# the same key's result in the prompt. Of six layers: what was found still has to be used.
HOP_LAYERS, LOOKUP_LAYERS = (2,), (3, 4)


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    width: int = 256
    layers: int = 6
    heads: int = 8
    ffn_width: int = 768  # hidden units of the MLP, or of each expert
    experts: int = 0  # 0: dense
    experts_used: int = 0  # per token
    vocab: int = 1024
    context: int = 256
    rms_eps: float = 1e-5
    rope_theta: float = 10000.0
    attention_block: int = 0  # LLaDA2: a position sees its block, counted from position 0, and those before; 0: all

    @property
    def head_dim(self):
        return self.width // self.heads


DENSE = ModelConfig()
SMOKE = dataclasses.replace(DENSE, width=128, layers=2, heads=4, ffn_width=384)


def mixture_of(dense):
    """The mixture that is upcycled from a dense model: 16 experts of a twelfth of its MLP, 4 per token, so that a
    token costs a third of the dense MLP."""
    return dataclasses.replace(dense, ffn_width=dense.ffn_width // 12, experts=16, experts_used=4)


class RmsNorm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(size)), eps

    def forward(self, x):
        scale = torch.rsqrt(x.float().square().mean(-1, keepdim=True) + self.eps)
        return x.float() * scale * self.weight


def rope_tables(positions, head_dim, theta):
    """(..., T) -> cos, sin (..., T, K): element j and element j + K/2 share the angle position / theta^(2j/K)."""
    frequency = theta ** -(torch.arange(0, head_dim, 2, device=positions.device).float() / head_dim)
    angle = positions.float()[..., None] * frequency
    angle = torch.cat([angle, angle], -1)
    return angle.cos(), angle.sin()


def rotate(x, tables):
    """RoPE on (..., T, K), half-split pairing: (x_j, x_{j+K/2}) is turned by the angle."""
    cos, sin = tables
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


def attend(q, k, v, visible=None):
    """softmax(q k^T / sqrt(K)) v for (B, H, T, K), over what is visible (B, 1, T, T). PyTorch's fused attention on a CPU takes seven times as long in bf16 as its
    two products (32 canvases of 88 tokens, forward and backward: 75 ms against 10), in f32 three quarters."""
    if v.device.type != "cpu" or v.dtype != torch.bfloat16:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=visible)
    with torch.autocast("cpu", enabled=False):
        scores = (q / math.sqrt(q.shape[-1])) @ k.mT
        if visible is not None:
            scores = scores.masked_fill(~visible, -math.inf)
        return scores.float().softmax(-1).to(v.dtype) @ v


def linear(rows, columns):
    return nn.Linear(columns, rows, bias=False)


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads, width = config.heads, config.width
        self.q, self.k, self.v, self.o = (linear(width, width) for _ in range(4))
        # One vector for all heads. Identity in the dense model, where LLaDA has no such norm.
        per_head = config.experts > 0
        self.q_norm = RmsNorm(config.head_dim, config.rms_eps) if per_head else nn.Identity()
        self.k_norm = RmsNorm(config.head_dim, config.rms_eps) if per_head else nn.Identity()
        self.lookup_loss = None

    def forward(self, x, tables, lookups=None, visible=None):
        """(B, T, D) -> (B, T, D). Without `visible` (B, 1, T, T) every position sees every other one. With lookups (N, 3), flat positions at, low
        and high, `lookup_loss` then holds the mean of -log(attention of `at` to [low, high)) in the first head."""
        batch, length, width = x.shape
        q, k, v = (f(x).view(batch, length, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        q, k = rotate(self.q_norm(q), tables), rotate(self.k_norm(k), tables)
        mixed = attend(q.to(v.dtype), k.to(v.dtype), v, visible)
        if lookups is not None:
            at, low, high = lookups.T[:, :, None]
            with torch.autocast(x.device.type, enabled=False):
                scores = q[:, 0].float() @ k[:, 0].float().mT / math.sqrt(q.shape[-1])
            if visible is not None:
                scores = scores.masked_fill(~visible[:, 0], -math.inf)
            row = scores.flatten(0, 1)[at[:, 0]].log_softmax(-1)
            position = at - at % length + torch.arange(length, device=x.device)
            inside = row.masked_fill((position < low) | (position >= high), -math.inf)
            self.lookup_loss = -inside.logsumexp(-1).mean()
        return self.o(mixed.transpose(1, 2).reshape(batch, length, width))


class SwiGlu(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate, self.up = linear(config.ffn_width, config.width), linear(config.ffn_width, config.width)
        self.down = linear(config.width, config.ffn_width)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Mixture(nn.Module):
    """E small SwiGLU networks; a token runs through `used` of them.

    After a forward, `balance` holds the load-balancing loss of that pass (1 when perfectly even) and `load` the share
    of assignments per expert (E,).
    """

    def __init__(self, config):
        super().__init__()
        self.used, (experts, hidden, width) = config.experts_used, (config.experts, config.ffn_width, config.width)
        self.router = linear(experts, width)
        self.gate, self.up = (nn.Parameter(torch.empty(experts, hidden, width)) for _ in range(2))
        self.down = nn.Parameter(torch.empty(experts, width, hidden))
        self.balance = self.load = None

    def forward(self, x):
        tokens = x.reshape(-1, x.shape[-1])
        probability = self.router(tokens).float().softmax(-1)
        weight, chosen = probability.topk(self.used, -1)
        weight = weight / weight.sum(-1, keepdim=True)
        out = torch.zeros_like(tokens)
        for expert in range(len(self.gate)):
            rows, rank = (chosen == expert).nonzero(as_tuple=True)
            part = tokens[rows]
            hidden = F.silu(F.linear(part, self.gate[expert])) * F.linear(part, self.up[expert])
            scaled = F.linear(hidden, self.down[expert]) * weight[rows, rank, None]
            out = out.index_add(0, rows, scaled.to(out.dtype))
        self.load = torch.bincount(chosen.flatten(), minlength=len(self.gate)).float() / chosen.numel()
        # Switch Transformer's loss: only the probabilities carry a gradient, pushed down where the load is high.
        self.balance = len(self.gate) * (probability.mean(0) * self.load).sum()
        return out.view_as(x)


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attn_norm, self.ff_norm = (RmsNorm(config.width, config.rms_eps) for _ in range(2))
        self.attn = Attention(config)
        self.mlp = Mixture(config) if config.experts else SwiGlu(config)

    def forward(self, x, tables, lookups=None, visible=None):
        x = x + self.attn(self.attn_norm(x), tables, lookups, visible)
        return x + self.mlp(self.ff_norm(x))


class MaskedDiffusionModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = RmsNorm(config.width, config.rms_eps)
        self.head = linear(config.vocab, config.width)

    def initialize(self, seed):
        """Normal(0, 0.02); the two projections back into the residual stream shrink with the depth."""
        generator = torch.Generator().manual_seed(seed)
        shrink = 1 / math.sqrt(2 * self.config.layers)
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                if parameter.dim() > 1:
                    back = name.endswith((".o.weight", ".down.weight", ".down"))
                    parameter.normal_(0, 0.02 * (shrink if back else 1), generator=generator)
        return self

    def forward(self, ids, rows=None, lookups=None, positions=None, visible=None):
        """ids (B, T) -> logits (B, T, V); with rows (N flat positions of the batch), only theirs: (N, V). lookups:
        {layer: (M, 3)}, what lookup_loss() is to measure. positions (B, T) and visible (B, T, T): where they are not those
        of a plain canvas."""
        x = self.embed(ids)
        places = torch.arange(ids.shape[1], device=ids.device) if positions is None else positions[:, None]
        tables = rope_tables(places, self.config.head_dim, self.config.rope_theta)
        if visible is None and self.config.attention_block:
            block = places // self.config.attention_block
            visible = (block[..., :, None] >= block[..., None, :]).view(-1, ids.shape[1], ids.shape[1])
        visible = None if visible is None else visible[:, None]
        for i, block in enumerate(self.blocks):
            x = block(x, tables, (lookups or {}).get(i), visible)
        if rows is not None:
            x = x.reshape(-1, x.shape[-1])[rows]
        return self.head(self.norm(x))

    def lookup_loss(self):
        """Mean over HOP_LAYERS and LOOKUP_LAYERS, each of which the last forward had lookups for. A named head of each, not
        whichever finds the place: for that it is enough that the heads share the candidates out among them."""
        losses = [self.blocks[i].attn.lookup_loss for i in HOP_LAYERS + LOOKUP_LAYERS]
        return sum(losses) / len(losses)

    def balance_loss(self):
        """Mean over the layers of the last forward's load-balancing loss; 0 for a dense model."""
        losses = [block.mlp.balance for block in self.blocks if isinstance(block.mlp, Mixture)]
        return sum(losses) / len(losses) if losses else torch.zeros(())
