"""Muon for the matrices of the blocks, AdamW for everything else, and the running average of the weights (EMA)."""
import copy

import torch


class Muon(torch.optim.Optimizer):
    """Nesterov momentum whose update is orthogonalised: all its singular values are brought near 1.

    Source: Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks", with the update scaled to
    AdamW's usual size (0.2 * sqrt(larger dimension), Liu et al. 2025), so that both share one learning rate. Parameters
    are matrices or stacks of them (experts).
    """

    def __init__(self, parameters, lr, momentum=0.95, weight_decay=0.01, bf16=False):
        super().__init__(parameters, dict(lr=lr, momentum=momentum, weight_decay=weight_decay, bf16=bf16))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            self._update([p for p in group["params"] if p.grad is not None], group["lr"], group["momentum"],
                         group["weight_decay"], group["bf16"])

    def _update(self, parameters, lr, momentum, weight_decay, bf16):
        """Matrices of one shape share the iteration's products: a GPU runs few large ones faster than many small ones."""
        for parameter in parameters:
            if "average" not in self.state[parameter]:
                self.state[parameter]["average"] = torch.zeros_like(parameter)
        averages, gradients = [self.state[p]["average"] for p in parameters], [p.grad for p in parameters]
        torch._foreach_lerp_(averages, gradients, 1 - momentum)
        directions = torch._foreach_lerp(gradients, averages, momentum)
        torch._foreach_mul_(parameters, 1 - lr * weight_decay)
        for shape in {parameter.shape for parameter in parameters}:
            members = [i for i, parameter in enumerate(parameters) if parameter.shape == shape]
            direction = torch.stack([directions[i] for i in members])
            # The iteration forgives rounding; in f32 it takes four times as long, a third of a step of 32 short canvases.
            direction = orthogonalize(direction.bfloat16() if bf16 else direction).to(directions[0].dtype)
            torch._foreach_add_([parameters[i] for i in members], list(direction.unbind()),
                                alpha=-lr * 0.2 * max(shape[-2:]) ** 0.5)


def orthogonalize(matrix, steps=5):
    """Newton-Schulz iteration on (..., rows, columns); the quintic's coefficients are tuned for speed, not accuracy."""
    tall = matrix.shape[-2] > matrix.shape[-1]
    x = matrix.mT if tall else matrix
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-12)
    for _ in range(steps):
        gram = x @ x.mT
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x.mT if tall else x


def make_optimizers(model, lr, use_muon, bf16=False):
    """-> optimizers over all parameters. The router is left to AdamW: its rows are classes, not a change of basis."""
    matrices, decayed, plain = [], [], []
    for name, parameter in model.named_parameters():
        in_block = name.startswith("blocks.") and parameter.dim() > 1 and "router" not in name
        (matrices if in_block and use_muon else decayed if parameter.dim() > 1 else plain).append(parameter)
    groups = [dict(params=decayed, weight_decay=0.05), dict(params=plain, weight_decay=0.0)]
    optimizers = [torch.optim.AdamW(groups, lr=lr / 2, betas=(0.9, 0.98))]
    return optimizers + ([Muon(matrices, lr, bf16=bf16)] if matrices else [])


class Average:
    """Exponential moving average of the weights: what is exported. Short-sighted at first, so that it forgets the
    random start."""

    def __init__(self, model, keep):
        self.model, self.keep, self.steps = copy.deepcopy(model).requires_grad_(False), keep, 0

    @torch.no_grad()
    def update(self, model):
        self.steps += 1
        decay = min(self.keep, (self.steps + 1) / (self.steps + 20))
        torch._foreach_lerp_(list(self.model.parameters()), list(model.parameters()), 1 - decay)
