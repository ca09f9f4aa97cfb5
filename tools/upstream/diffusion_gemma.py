#!/usr/bin/env python3
"""DiffusionGemma against its class in the public package transformers (5.24 and newer).

Writes tests/data/diffusion_gemma: a small model of random weights as its class saves it (folder/: config.json and
model.safetensors, with a vision tower), the same as a GGUF with the keys and tensor names that llama.cpp's open pull
request writes (model.gguf), and what the class computes from it in 32-bit floats (golden.json): the logits of canvas
passes behind a prompt and behind a canvas that was encoded in its turn, with and without self-conditioning. Weights are
rounded to BF16 before anything is computed, so files and numbers belong together exactly. Also recorded are whole answers
of the class's generate(), which draws from functions of seed, forward and position as this program does
(uniform_canvas.py).

    tools/upstream/diffusion_gemma.py [--out tests/data/diffusion_gemma]
"""
import argparse
import copy
import json
import pathlib
import struct

import torch

from uniform_canvas import RANDOM_TOKEN, TOKEN_DRAW, uniform

ROOT = pathlib.Path(__file__).resolve().parents[2]
VOCABULARY, WIDTH, LAYERS, CANVAS, PROMPT, WINDOW = 96, 32, 6, 8, 12, 5
TEXT = dict(vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=64, num_hidden_layers=LAYERS,
            num_attention_heads=4, num_key_value_heads=2, head_dim=8, global_head_dim=16, num_global_key_value_heads=1,
            max_position_embeddings=256, sliding_window=WINDOW, num_experts=4, top_k_experts=2,
            moe_intermediate_size=32, pad_token_id=0, eos_token_id=1, bos_token_id=2)
VISION = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=1, num_key_value_heads=1,
              head_dim=16, patch_size=2, position_embedding_size=4)


def build():
    from transformers import DiffusionGemmaConfig, DiffusionGemmaForBlockDiffusion, DiffusionGemmaTextConfig
    from transformers import Gemma4VisionConfig
    config = DiffusionGemmaConfig(text_config=DiffusionGemmaTextConfig(**TEXT),
                                  vision_config=Gemma4VisionConfig(**VISION), canvas_length=CANVAS)
    config._attn_implementation = "eager"
    return DiffusionGemmaForBlockDiffusion(config).float().eval()


@torch.no_grad()
def randomise(model, seed):
    """Weights that BF16 holds; scalars and norms that are not the ones of a new model."""
    generator = torch.Generator().manual_seed(seed)
    for name, value in sorted(model.named_parameters()) + sorted(model.named_buffers()):
        noise = torch.randn(value.shape, generator=generator)
        if name.endswith(("inv_freq", "embed_scale")):
            continue
        if name.endswith("decoder.norm.weight"):
            value.copy_(noise)  # signs too: a tied head would otherwise predict the token that it is given
        elif name.endswith("layer_scalar"):
            value.copy_(0.8 + 0.2 * noise.tanh())
        elif name.endswith("per_expert_scale"):
            value.copy_(1 + 0.4 * noise.tanh())
        elif name.endswith(("q_norm.weight", "k_norm.weight")):
            value.copy_(0.5 + 0.1 * noise)  # scores are not scaled: with more, a rounding turns attention over
        elif value.dim() == 1:
            value.copy_(1 + 0.2 * noise)
        elif "embed_tokens" in name:
            value.copy_(0.5 * noise)
        else:
            value.copy_(1.2 * noise / value.shape[-1] ** 0.5)
        value.copy_(value.bfloat16().float())


@torch.no_grad()
def goldens(model, seed):
    generator = torch.Generator().manual_seed(seed)
    ids = lambda n: torch.randint(3, VOCABULARY, (1, n), generator=generator)
    prompt, passes, new, cache = ids(PROMPT), [], None, None
    new = prompt
    for canvas_number in range(3):
        logits = None
        for step in range(2):
            canvas, temperature = ids(CANVAS), 0.8 - 0.15 * step
            signal = None if logits is None else logits / (0.8 - 0.15 * (step - 1))
            out = model(input_ids=new, cache=cache, decoder_input_ids=canvas, self_conditioning_logits=signal)
            new, cache, logits = None, out.cache, out.logits
            passes.append(dict(canvas=canvas[0].tolist(), behind=canvas_number, conditioned=signal is not None,
                               temperature=temperature, logits=[round(x, 6) for x in logits[0].flatten().tolist()]))
        new = logits.argmax(-1)
    # Self-conditioning makes a rounding two to four times as large in every step, and this program's instruction sets sum
    # in different orders: the seed of the longest answer is one whose draws all keep 7e-4 from the next token's.
    answers = [answer(model, ids(length), **options) for length, options in [
        (PROMPT, dict(seed=3, steps=6, bound=0.1)), (3, dict(seed=110, steps=9, bound=2.5)),
        (21, dict(seed=5, steps=4, bound=6.0, t_min=0.05, t_max=0.2)), (1, dict(seed=6, steps=1, bound=0.1))]]
    return dict(prompt=prompt[0].tolist(), vocabulary=VOCABULARY, canvas_length=CANVAS, passes=passes, answers=answers)


@torch.no_grad()
def answer(model, prompt, seed, steps, bound, t_min=0.4, t_max=0.8, canvases=3):
    """Ids of generate(), up to the first end token."""
    from transformers.models.diffusion_gemma import generation_diffusion_gemma as gemma
    state = dict(forward=0, begin=prompt.shape[1])
    draw = lambda kind: [uniform(seed, state["forward"], state["begin"] + i, kind) for i in range(CANVAS)]

    def multinomial(probabilities, num_samples):
        sums = probabilities.double().cumsum(-1)
        draws = torch.tensor(draw(TOKEN_DRAW), dtype=torch.float64)[:, None]
        state["forward"] += 1  # what is drawn from here on is for the next forward
        return (sums <= draws * sums[:, -1:]).sum(-1, keepdim=True)

    def next_canvas(**words):
        state["begin"] += CANVAS
        return own_next(**words)

    def random_canvas(self, batch_size, device):
        return torch.tensor([[min(VOCABULARY - 1, int(u * VOCABULARY)) for u in draw(RANDOM_TOKEN)]])

    mixin, sampler = gemma.DiffusionGemmaGenerationMixin, gemma.EntropyBoundSampler
    own_multinomial, own_next, own_canvas = torch.multinomial, mixin._prepare_kwargs_for_next_canvas, \
        sampler.initialize_canvas
    torch.multinomial, sampler.initialize_canvas = multinomial, random_canvas
    mixin._prepare_kwargs_for_next_canvas = staticmethod(next_canvas)
    try:
        config = gemma.DiffusionGemmaGenerationConfig(
            max_new_tokens=CANVAS * canvases, max_denoising_steps=steps, t_min=t_min, t_max=t_max, eos_token_id=[1],
            pad_token_id=0, stability_threshold=1, confidence_threshold=0.005, return_dict_in_generate=False,
            sampler_config=gemma.EntropyBoundSamplerConfig(entropy_bound=bound))
        tokens = model.generate(prompt, generation_config=config)[0, prompt.shape[1]:].tolist()
    finally:
        torch.multinomial, sampler.initialize_canvas = own_multinomial, own_canvas
        mixin._prepare_kwargs_for_next_canvas = staticmethod(own_next)
    return dict(prompt=prompt[0].tolist(), seed=seed, steps=steps, entropy_bound=bound, t_min=t_min, t_max=t_max,
                canvases=canvases, tokens=tokens[: tokens.index(1) + 1 if 1 in tokens else None])


# ---------------------------------------------------------------- GGUF

U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
BF16_TENSOR, F32_TENSOR = 30, 0


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def encoded(kind, value):
    if kind == STRING:
        return text(value)
    return struct.pack({U32: "<I", I32: "<i", F32: "<f", BOOL: "<?"}[kind], value)


def metadata(model):
    c = model.config.text_config
    full = [kind == "full_attention" for kind in c.layer_types]  # whose own numbers TEXT has
    arch = "diffusion-gemma."
    yield "general.architecture", STRING, "diffusion-gemma"
    yield "general.type", STRING, "model"
    yield "general.name", STRING, "tiny"
    yield "general.file_type", U32, 32
    yield "general.quantization_version", U32, 2
    for key, value in [("block_count", c.num_hidden_layers), ("context_length", c.max_position_embeddings),
                       ("embedding_length", c.hidden_size), ("feed_forward_length", c.intermediate_size),
                       ("attention.head_count", c.num_attention_heads), ("attention.key_length", 16),
                       ("attention.value_length", 16), ("attention.key_length_swa", TEXT["head_dim"]),
                       ("attention.value_length_swa", TEXT["head_dim"]), ("attention.sliding_window", c.sliding_window),
                       ("rope.dimension_count", 16), ("rope.dimension_count_swa", TEXT["head_dim"]),
                       ("expert_count", c.num_experts), ("expert_used_count", c.top_k_experts),
                       ("expert_feed_forward_length", c.moe_intermediate_size), ("attention.shared_kv_layers", 0),
                       ("embedding_length_per_layer_input", 0)]:
        yield arch + key, U32, value
    yield arch + "attention.head_count_kv", (ARRAY, I32), [1 if f else TEXT["num_key_value_heads"] for f in full]
    yield arch + "attention.sliding_window_pattern", (ARRAY, BOOL), [not f for f in full]
    yield arch + "attention.layer_norm_rms_epsilon", F32, c.rms_norm_eps
    yield arch + "attention.causal", BOOL, False
    yield arch + "rope.freq_base", F32, 1e6
    yield arch + "rope.freq_base_swa", F32, 1e4
    yield arch + "final_logit_softcapping", F32, 30.0
    yield "diffusion.canvas_length", U32, CANVAS


NAMES = {"input_layernorm.weight": "attn_norm.weight", "self_attn.q_proj.weight": "attn_q.weight",
         "self_attn.k_proj.weight": "attn_k.weight", "self_attn.v_proj.weight": "attn_v.weight",
         "self_attn.o_proj.weight": "attn_output.weight", "self_attn.q_norm.weight": "attn_q_norm.weight",
         "self_attn.k_norm.weight": "attn_k_norm.weight",
         "post_attention_layernorm.weight": "post_attention_norm.weight",
         "pre_feedforward_layernorm.weight": "ffn_norm.weight", "mlp.gate_proj.weight": "ffn_gate.weight",
         "mlp.up_proj.weight": "ffn_up.weight", "mlp.down_proj.weight": "ffn_down.weight",
         "post_feedforward_layernorm.weight": "post_ffw_norm.weight",
         "post_feedforward_layernorm_1.weight": "post_ffw_norm_1.weight",
         "pre_feedforward_layernorm_2.weight": "pre_ffw_norm_2.weight",
         "post_feedforward_layernorm_2.weight": "post_ffw_norm_2.weight", "router.proj.weight": "ffn_gate_inp.weight",
         "router.scale": "ffn_gate_inp.scale", "router.per_expert_scale": "ffn_down_exps.scale",
         "experts.gate_up_proj": "ffn_gate_up_exps.weight", "experts.down_proj": "ffn_down_exps.weight",
         "layer_scalar": "layer_output_scale.weight"}
GLOBALS = {"embed_tokens.weight": "token_embd.weight", "norm.weight": "output_norm.weight",
           "self_conditioning.pre_norm.weight": "self_cond_pre_norm.weight",
           "self_conditioning.gate_proj.weight": "self_cond_gate.weight",
           "self_conditioning.up_proj.weight": "self_cond_up.weight",
           "self_conditioning.down_proj.weight": "self_cond_down.weight"}


def tensors(model):
    yield "rope_freqs.weight", torch.tensor([1.0] * 2 + [1e30] * 6)
    state = model.state_dict()
    for name, value in state.items():
        if name.startswith("model.decoder.layers."):
            _, _, _, layer, leaf = name.split(".", 4)
            yield f"blk.{layer}.{NAMES[leaf]}", value
        elif name.startswith("model.decoder."):
            yield GLOBALS[name.removeprefix("model.decoder.")], value
        elif name.startswith("model.encoder.language_model.layers.") and name.endswith("layer_scalar"):
            yield f"blk.{name.split('.')[4]}.enc_layer_output_scale.weight", value


def write_gguf(path, values, parts):
    """values: (key, type, value); parts: (name, tensor). Matrices are BF16, the rest F32."""
    values, parts, data = list(values), list(parts), b""
    out = struct.pack("<4sIQQ", b"GGUF", 3, len(parts), len(values))
    for key, kind, value in values:
        out += text(key)
        if isinstance(kind, tuple):
            out += struct.pack("<IIQ", ARRAY, kind[1], len(value)) + b"".join(encoded(kind[1], one) for one in value)
        else:
            out += struct.pack("<I", kind) + encoded(kind, value)
    for name, value in parts:
        matrix = value.dim() > 1 and not name.endswith("ffn_gate_inp.weight")
        out += text(name) + struct.pack("<I", value.dim())
        out += b"".join(struct.pack("<Q", n) for n in reversed(value.shape))
        out += struct.pack("<IQ", BF16_TENSOR if matrix else F32_TENSOR, len(data))
        raw = value.bfloat16().contiguous().view(torch.uint16) if matrix else value.float().contiguous()
        data += raw.numpy().tobytes()
        data += b"\0" * (-len(data) % 32)
    out += b"\0" * (-len(out) % 32)
    path.write_bytes(out + data)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "tests/data/diffusion_gemma")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    model = build()
    randomise(model, args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "golden.json").write_text(json.dumps(goldens(model, args.seed + 1)))
    write_gguf(args.out / "model.gguf", metadata(model), tensors(model))
    copy.deepcopy(model).bfloat16().save_pretrained(args.out / "folder")


if __name__ == "__main__":
    main()
