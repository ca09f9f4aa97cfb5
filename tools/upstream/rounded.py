#!/usr/bin/env python3
"""Folders that other software has rounded, against the software that rounds them.

For every scheme that `llada` reads, a small model's matrices are rounded by the tool itself (MLX, compressed-tensors,
GPTQModel, AutoAWQ, ModelOpt; FP8 in blocks by torch's own type) and written as that tool's folders are. The tool gives
them back as 32-bit floats. `llada convert --type f32` of the folder must have the same values: equal where the table
says exact, else within the stated share of the largest of 32 neighbours. `llada run` on the folder must give the ids
of the GGUF file that `llada convert` makes of it in the type that the matrices have here, whose bytes it copies. LLaDA's
GGUF files have the rows of q and k in another order, so that sums differ in their last bits: its ids may differ.
"""
import importlib.machinery
import importlib.util
import json
import pathlib
import struct
import sys
import tempfile
import types

import torch
from common import EOS, MASK, VOCABULARY, Unavailable, arguments, main, our_ids, run_llada, write_tokenizer

WIDTH, INNER, HEADS, KEYS, HEAD, LAYERS, EXPERTS = 128, 256, 4, 2, 32, 2, 4


# ---------------------------------------------------------------- models


def model(family, seed):
    """config.json, and weights by name: floats that BF16 has."""
    random = torch.Generator().manual_seed(seed)

    def draw(*shape, scale=0.1, around=0):
        return (around + scale * torch.randn(shape, generator=random)).bfloat16().float()

    keys = HEADS if family == "llada_moe" else KEYS
    config = dict(vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
                  num_key_value_heads=keys, head_dim=HEAD, max_position_embeddings=512, rms_norm_eps=1e-5,
                  rope_theta=1e4, mask_token_id=MASK, eos_token_id=EOS, pad_token_id=EOS, tie_word_embeddings=False)
    config |= dict(architectures=[dict(llada="LLaDAModelLM", sdar="SDARForCausalLM", llada_moe="LLaDAMoEModelLM")[family]])
    weights = {"model.embed_tokens.weight": draw(VOCABULARY, WIDTH, scale=1), "model.norm.weight": draw(WIDTH, around=1),
               "lm_head.weight": draw(VOCABULARY, WIDTH, scale=0.5)}
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        for name, out, inputs in (("q", HEADS * HEAD, WIDTH), ("k", keys * HEAD, WIDTH), ("v", keys * HEAD, WIDTH),
                                  ("o", WIDTH, HEADS * HEAD)):
            weights[f"{at}self_attn.{name}_proj.weight"] = draw(out, inputs)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            weights[f"{at}{norm}.weight"] = draw(WIDTH, around=1)
        if family != "llada":
            for norm in ("q_norm", "k_norm"):
                weights[f"{at}self_attn.{norm}.weight"] = draw(HEAD, around=1)
        networks = [f"{at}mlp."] if family != "llada_moe" else [f"{at}mlp.experts.{e}." for e in range(EXPERTS)]
        for network in networks:
            for name, out, inputs in (("gate", INNER, WIDTH), ("up", INNER, WIDTH), ("down", WIDTH, INNER)):
                weights[f"{network}{name}_proj.weight"] = draw(out, inputs)
        if family == "llada_moe":
            weights[f"{at}mlp.gate.weight"] = draw(EXPERTS, WIDTH)
    if family == "llada_moe":
        config |= dict(num_experts=EXPERTS, num_experts_per_tok=2, expert_intermediate_size=INNER, qk_layernorm=True,
                       norm_topk_prob=False, moe_layer_freq=[1] * LAYERS)
    else:
        config |= dict(intermediate_size=INNER)
    return config, weights


def save(folder, config, weights):
    from safetensors.torch import save_file
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    save_file({name: value.contiguous() for name, value in weights.items()}, folder / "model.safetensors")
    write_tokenizer(folder)


def gguf_floats(path):
    """The values of an F32 file by tensor."""
    data = path.read_bytes()
    at = 24
    tensors, keys = struct.unpack_from("<QQ", data, 8)

    def take(form):
        nonlocal at
        values = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return values[0] if len(values) == 1 else values

    def text():
        nonlocal at
        size = take("Q")
        at += size
        return data[at - size:at].decode()

    def value(kind):
        if kind == 8:
            return text()
        if kind == 9:
            inner, count = take("I"), take("Q")
            return [value(inner) for _ in range(count)]
        return take("BbHhIifxx?xQqd"[kind] if kind < 8 else {10: "Q", 11: "q", 12: "d"}[kind])

    for _ in range(keys):
        text()
        value(take("I"))
    places = []
    for _ in range(tensors):
        name, rank = text(), take("I")
        dims = [take("Q") for _ in range(rank)]
        kind, offset = take("I"), take("Q")
        if kind != 0:
            raise RuntimeError(f"{name} has type {kind}, F32 needed")
        places.append((name, dims, offset))
    begin = (at + 31) // 32 * 32
    values = {}
    for name, dims, offset in places:
        count = 1
        for dim in dims:
            count *= dim
        values[name] = torch.frombuffer(bytearray(data[begin + offset:begin + offset + 4 * count]), dtype=torch.float32)
    return values


# ---------------------------------------------------------------- tools: weight -> (parts, the same as floats)


def stand_in(name):
    """A package that a tool imports on its way and that rounding does not need."""
    module = types.ModuleType(name)
    module.__path__ = []
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)

    def member(name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})

    module.__getattr__ = member
    sys.modules.setdefault(name, module)


def mlx(mode, bits, group):
    import mlx.core as mx
    import numpy

    def tensor(array):
        return torch.from_numpy(numpy.array(array.astype(mx.float32))).bfloat16() if array.dtype == mx.bfloat16 \
            else torch.from_numpy(numpy.array(array))

    def work(weight):
        array = mx.array(weight.numpy()).astype(mx.bfloat16)
        parts = mx.quantize(array, group_size=group, bits=bits, mode=mode)
        single = [parts[0], *(p.astype(mx.float32) if mode == "affine" else p for p in parts[1:])]
        back = mx.dequantize(*single, group_size=group, bits=bits, mode=mode, dtype=mx.float32)
        return dict(zip(("weight", "scales", "biases"), map(tensor, parts))), tensor(back)

    return work, dict(quantization=dict(group_size=group, bits=bits, mode=mode))


def compressed(form, **arguments):
    from compressed_tensors.compressors.base import BaseCompressor
    from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.lifecycle.forward import dequantize
    from compressed_tensors.quantization.utils.helpers import calculate_qparams, generate_gparam
    args = QuantizationArgs(**arguments)
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    compressor = BaseCompressor.get_value_from_registry(form)

    def back_from(packed):
        if "nvfp4" not in form:
            return compressor.decompress(dict(packed), scheme)["weight"].float()
        # Its own way back ends in BF16: the same steps without that.
        codes = unpack_fp4_from_uint8(packed["weight_packed"], packed["weight_packed"].shape[0],
                                      2 * packed["weight_packed"].shape[1], dtype=torch.float32)
        return dequantize(codes, packed["weight_scale"].float(), global_scale=packed["weight_global_scale"],
                          args=args, dtype=torch.float32)

    def work(weight):
        size = args.group_size or weight.shape[1]
        groups = weight.reshape(weight.shape[0], -1, size)
        state = dict(weight=weight)
        gparam = None
        if "nvfp4" in form:
            gparam = generate_gparam(weight.amin(), weight.amax()).reshape(1)
            state["weight_global_scale"] = gparam
        scale, zero = calculate_qparams(groups.amin(-1), groups.amax(-1), args, global_scale=gparam)
        state |= dict(weight_scale=scale if scale.dtype != torch.float32 or gparam is not None else
                      scale.bfloat16().float(), weight_zero_point=zero)
        packed = compressor.compress(state, scheme)
        back = back_from(packed)
        if packed["weight_scale"].dtype == torch.float32:
            packed["weight_scale"] = packed["weight_scale"].bfloat16()
        return {name: part for name, part in packed.items() if name != "weight_zero_point" or not args.symmetric}, back

    return work, dict(quantization_config=dict(quant_method="compressed-tensors", format=form, ignore=["lm_head"],
                                               quantization_status="compressed",
                                               config_groups=dict(group_0=dict(weights=args.model_dump(mode="json"),
                                                                               targets=["Linear"]))))


def gptq(bits, symmetric, form):
    for name in ("datasets", "pyarrow", "torchao", "maturin"):
        if importlib.util.find_spec(name) is None:
            stand_in(name)
    from gptqmodel.nn_modules.qlinear.torch import TorchLinear

    def work(weight):
        out, inputs = weight.shape
        groups = weight.reshape(out, -1, 64)
        top = 2 ** bits - 1
        if symmetric:
            scale = (groups.abs().amax(-1) * 2 / top).half().float()
            zero = torch.full_like(scale, (top + 1) // 2)
        else:
            low, high = groups.amin(-1).clamp(max=0), groups.amax(-1).clamp(min=0)
            scale = ((high - low) / top).half().float()
            zero = (-low / scale).round().clamp(1, top)
        layer = torch.nn.Linear(inputs, out, bias=False)
        layer.weight.data = weight
        module = TorchLinear(bits=bits, group_size=64, sym=symmetric, desc_act=False, in_features=inputs,
                             out_features=out, bias=False, pack_dtype=torch.int32, register_buffers=True)
        order = torch.arange(inputs, dtype=torch.int32) // 64
        module.pack(layer, scale, zero, order)
        module.post_init()
        module.scales = module.scales.float()  # so that the product is not rounded
        back = module.dequantize_weight().T.float()
        zeros = module.qzeros
        if form == "gptq":  # stored less one in each place
            one = sum(1 << bits * i for i in range(32 // bits))
            zeros = (zeros.long() - one).to(torch.int32)
        return dict(qweight=module.qweight, qzeros=zeros, scales=module.scales.half(), g_idx=module.g_idx), back

    return work, dict(quantization_config=dict(quant_method="gptq", bits=bits, group_size=64, sym=symmetric,
                                               desc_act=False, checkpoint_format=form))


def awq():
    spec = importlib.util.find_spec("awq")
    if spec is None:
        raise ModuleNotFoundError("awq")
    path = pathlib.Path(spec.origin).parent / "utils/packing_utils.py"  # alone: the package wants a GPU's kernels
    spec = importlib.util.spec_from_file_location("awq_packing", path)
    packing = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(packing)

    def words(codes):
        places = codes.reshape(codes.shape[0], -1, 8)[..., packing.AWQ_ORDER].long()
        shifted = sum(places[..., i] << 4 * i for i in range(8))
        return torch.where(shifted >= 2 ** 31, shifted - 2 ** 32, shifted).to(torch.int32)

    def work(weight):
        groups = weight.reshape(weight.shape[0], -1, 64)
        low, high = groups.amin(-1).clamp(max=0), groups.amax(-1).clamp(min=0)
        scale = ((high - low) / 15).half().float()
        zero = (-low / scale).round().clamp(0, 15)
        codes = ((groups / scale[..., None]).round() + zero[..., None]).clamp(0, 15).reshape(weight.shape).T.contiguous()
        parts = dict(qweight=words(codes), qzeros=words(zero.T.contiguous()), scales=scale.T.half())
        back = packing.dequantize_gemm(parts["qweight"], parts["qzeros"], parts["scales"].float(), 4, 64)
        return parts, back.T

    return work, dict(quantization_config=dict(quant_method="awq", bits=4, group_size=64, version="gemm", zero_point=True))


def modelopt_fp4():
    from modelopt.torch.quantization.qtensor.nvfp4_tensor import NVFP4QTensor

    def work(weight):
        packed, scale, second = NVFP4QTensor.quantize(weight, 16)
        back = packed.dequantize(dtype=torch.float32, scale=scale, double_scale=second, block_sizes={-1: 16})
        return dict(weight=packed._quantized_data, weight_scale=scale, weight_scale_2=second.reshape(()),
                    input_scale=torch.ones(())), back

    return work, dict(quantization_config=dict(quant_method="modelopt", quant_algo="NVFP4"))


def float8(block):
    def work(weight):
        if block:
            corners = [(r, c) for r in range(0, weight.shape[0], 128) for c in range(0, weight.shape[1], 128)]
            scale = torch.stack([weight[r:r + 128, c:c + 128].abs().amax() / 448 for r, c in corners])
            scale = scale.reshape(-1, (weight.shape[1] + 127) // 128)
            every = scale.repeat_interleave(128, 0).repeat_interleave(128, 1)[: weight.shape[0], : weight.shape[1]]
        else:
            scale = every = weight.abs().amax() / 448
        codes = (weight / every).to(torch.float8_e4m3fn)
        return {"weight": codes, "weight_scale_inv" if block else "weight_scale": scale}, codes.float() * every

    return work, dict(quantization_config=dict(quant_method="fp8", weight_block_size=[128, 128]) if block else
                      dict(quant_method="modelopt", quant_algo="FP8"))


def schemes():
    """Name, type here, largest share, and how."""
    group = dict(strategy="group", group_size=32, type="int")
    return [
        *((f"MLX affine {bits} bits, groups of {size}", "q4_1" if bits < 5 else "q5_1" if bits == 5 else "q8_m",
           0 if bits < 6 else 1e-6, lambda bits=bits, size=size: mlx("affine", bits, size))
          for bits, size in ((2, 32), (3, 64), (4, 32), (4, 64), (4, 128), (5, 64), (6, 64), (8, 64))),
        ("MLX mxfp4", "mxfp4", 0, lambda: mlx("mxfp4", 4, 32)),
        ("MLX mxfp8", "q8_0", 0.0042, lambda: mlx("mxfp8", 8, 32)),
        ("MLX nvfp4", "q8_0", 0.0066, lambda: mlx("nvfp4", 4, 16)),
        *((f"GPTQ {bits} bits{' symmetric' if symmetric else ''}, {form}", kind, share,
           lambda bits=bits, symmetric=symmetric, form=form: gptq(bits, symmetric, form))
          for bits, symmetric, form, kind, share in
          ((4, True, "gptq", "q4_0", 0), (4, True, "gptq_v2", "q4_0", 0), (4, False, "gptq", "q4_1", 1e-3),
           (2, False, "gptq_v2", "q4_1", 1e-3), (8, True, "gptq", "q8_0", 0), (8, False, "gptq_v2", "q8_m", 1e-6))),
        ("AWQ gemm", "q4_1", 1e-3, awq),
        ("compressed-tensors 4 bits", "q4_0", 0,
         lambda: compressed("pack-quantized", num_bits=4, symmetric=True, **group)),
        ("compressed-tensors 4 bits, zeros", "q4_1", 1e-3,
         lambda: compressed("pack-quantized", num_bits=4, symmetric=False, zp_dtype=torch.int8, **group)),
        ("compressed-tensors 3 bits", "q4_0", 0,
         lambda: compressed("pack-quantized", num_bits=3, symmetric=True, **group)),
        ("compressed-tensors 8 bits", "q8_0", 0,
         lambda: compressed("pack-quantized", num_bits=8, symmetric=True, **group)),
        ("compressed-tensors FP8 rows", "q8_0", 0.0042,
         lambda: compressed("float-quantized", num_bits=8, type="float", strategy="channel", symmetric=True)),
        ("compressed-tensors NVFP4", "q8_0", 0.0066,
         lambda: compressed("nvfp4-pack-quantized", num_bits=4, type="float", strategy="tensor_group", group_size=16,
                            symmetric=True)),
        ("compressed-tensors MXFP4", "mxfp4", 0,
         lambda: compressed("mxfp4-pack-quantized", num_bits=4, type="float", strategy="group", group_size=32,
                            symmetric=True, scale_dtype=torch.uint8, zp_dtype=torch.uint8)),
        ("ModelOpt NVFP4", "q8_0", 0.0066, modelopt_fp4),
        ("ModelOpt FP8", "q8_0", 0.0042, lambda: float8(False)),
        ("FP8 in blocks", "q8_0", 0.0042, lambda: float8(True)),
    ]


# ---------------------------------------------------------------- comparing


def largest_share(got, want):
    got, want = got.double().reshape(-1, 32), want.double().reshape(-1, 32)
    largest, difference = want.abs().amax(-1), (got - want).abs().amax(-1)
    if (difference[largest == 0] > 0).any():
        return 1.0
    return (difference / largest.clamp(min=1e-300)).max().item()


def compare(args, work, config, kind, family, root):
    """The largest share of a difference, the types here, and whether the ids are equal (None: no such GGUF type)."""
    whole, weights = model(family, args.seed)
    parts, back = {}, {}
    for name, weight in weights.items():
        if weight.dim() == 2 and ".gate.weight" not in name:
            made, floats = work(weight)
            parts |= {f"{name.removesuffix('weight')}{part}": value for part, value in made.items()}
            back[name] = floats
        else:
            parts[name], back[name] = weight.bfloat16(), weight
    save(root / "rounded", whole | config, parts)
    save(root / "floats", whole, back)
    values = []
    for folder in ("rounded", "floats"):
        run_llada(args.llada, "convert", root / folder, root / f"{folder}.gguf", "--type", "f32", "--json")
        values.append(gguf_floats(root / f"{folder}.gguf"))
    rows = {name for name in values[1] if values[1][name].numel() % 32 == 0}
    worst = max(largest_share(values[0][name], values[1][name]) for name in rows)
    found = run_llada(args.llada, "inspect", root / "rounded", "--json")
    kinds = {entry["type"] for entry in found["types"]} - {"bf16"}
    if kinds != {kind}:
        raise RuntimeError(f"types {kinds}, {kind} needed")
    if kind in ("q8_m", "mxfp4"):
        return worst, None
    run_llada(args.llada, "convert", root / "rounded", root / "same.gguf", "--type", kind, "--json")
    prompt, options = b"abcdef", ("--gen-length", "16", "--steps", "8")
    return worst, our_ids(args.llada, root / "rounded", prompt, *options) == \
        our_ids(args.llada, root / "same.gguf", prompt, *options)


def work(args):
    failed = compared = skipped = 0
    print("| scheme | as | family | largest share of a difference | allowed | ids of the converted file |\n|---|---|---|---|---|---|")
    for name, kind, share, how in schemes():
        try:
            rounding, config = how()
        except (ImportError, ModuleNotFoundError) as error:
            print(f"| {name} | SKIPPED: {error} |")
            skipped += 1
            continue
        for family in ("llada", "sdar", "llada_moe")[: 1 if args.quick else None]:
            with tempfile.TemporaryDirectory(prefix="llada-rounded-") as folder:
                try:
                    worst, same = compare(args, rounding, config, kind, family, pathlib.Path(folder))
                except RuntimeError as error:
                    worst, same = str(error).splitlines()[0], False
            good = isinstance(worst, float) and worst <= share and (same is not False or family == "llada")
            compared += 1
            failed += not good
            shown = {None: "-", True: "equal", False: "DIFFER"}[same]
            print(f"| {name} | {kind} | {family} | {worst} | {share} | {shown} |{'' if good else ' FAILED'}", flush=True)
    print(f"\n{compared} folders, {failed} failed, {skipped} schemes skipped for want of their tool")
    if compared == 0:
        raise Unavailable("none of the tools is here")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(work, arguments(__doc__).parse_args()))
