"""Reads and writes a model folder in Hugging Face's layout: config.json and model.safetensors with the names that
LLaDA-8B (dense), LLaDA-MoE and, for block-causal attention, LLaDA2 use (there all layers are of the dense kind that its
first one is, and q, k and v have a tensor each). safetensors is simple enough to need no library: 8 bytes of header
length, a JSON header {name: {dtype, shape, data_offsets}}, then the bytes, little-endian.
"""
import ctypes
import json
import pathlib

import torch

from model import MaskedDiffusionModel, ModelConfig
from tokenizer import BASE_SIZE, BOS, EOS, EOT, MASK, SPECIAL

DENSE_NAMES = {"embed.weight": "model.transformer.wte.weight", "norm.weight": "model.transformer.ln_f.weight",
               "head.weight": "model.transformer.ff_out.weight"}
DENSE_BLOCK_NAMES = {"attn_norm": "attn_norm", "attn.q": "q_proj", "attn.k": "k_proj", "attn.v": "v_proj",
                     "attn.o": "attn_out", "ff_norm": "ff_norm", "mlp.gate": "ff_proj", "mlp.up": "up_proj",
                     "mlp.down": "ff_out"}
MIXTURE_NAMES = {"embed.weight": "model.embed_tokens.weight", "norm.weight": "model.norm.weight",
                 "head.weight": "lm_head.weight"}
MIXTURE_BLOCK_NAMES = {"attn_norm": "input_layernorm", "attn.q": "self_attn.q_proj", "attn.k": "self_attn.k_proj",
                       "attn.v": "self_attn.v_proj", "attn.o": "self_attn.o_proj", "attn.q_norm": "self_attn.q_norm",
                       "attn.k_norm": "self_attn.k_norm", "ff_norm": "post_attention_layernorm",
                       "mlp.router": "mlp.gate"}
BLOCK_CAUSAL_NAMES = {"embed.weight": "model.word_embeddings.weight", "norm.weight": "model.norm.weight",
                      "head.weight": "lm_head.weight"}
BLOCK_CAUSAL_BLOCK_NAMES = {"attn_norm": "input_layernorm", "attn.q": "self_attn.q_proj", "attn.k": "self_attn.k_proj",
                            "attn.v": "self_attn.v_proj", "attn.o": "attention.dense",
                            "ff_norm": "post_attention_layernorm", "mlp.gate": "mlp.gate_proj",
                            "mlp.up": "mlp.up_proj", "mlp.down": "mlp.down_proj"}
LLADA2_BLOCK = 32  # of its published code, which has no field for it; OWN_BLOCK_KEY names another one here
OWN_BLOCK_KEY = "attention_block"

# ---------------------------------------------------------------- names


def file_tensors(model):
    """-> [(name in the file, tensor of the model)]; experts, one tensor here, are one tensor each in the file."""
    parameters, mixture = dict(model.named_parameters()), model.config.experts > 0
    if model.config.attention_block and mixture:
        raise ValueError("a mixture with block-causal attention has no names here")
    if model.config.attention_block:
        names, block_names, layers = BLOCK_CAUSAL_NAMES, BLOCK_CAUSAL_BLOCK_NAMES, "model.layers"
    elif mixture:
        names, block_names, layers = MIXTURE_NAMES, MIXTURE_BLOCK_NAMES, "model.layers"
    else:
        names, block_names, layers = DENSE_NAMES, DENSE_BLOCK_NAMES, "model.transformer.blocks"
    out = [(name, parameters[ours]) for ours, name in names.items()]
    for i in range(model.config.layers):
        prefix = f"{layers}.{i}."
        out += [(f"{prefix}{name}.weight", parameters[f"blocks.{i}.{ours}.weight"])
                for ours, name in block_names.items()]
        if mixture:
            out += [(f"{prefix}mlp.experts.{e}.{part}_proj.weight", parameters[f"blocks.{i}.mlp.{part}"][e])
                    for e in range(model.config.experts) for part in ("gate", "up", "down")]
    return out


# ---------------------------------------------------------------- config.json


def config_json(config):
    """The fields that the published checkpoints' config.json carry, for this model."""
    ids = {text: BASE_SIZE + i for i, text in enumerate(SPECIAL)}
    common = dict(
        vocab_size=config.vocab, rope_theta=config.rope_theta, rms_norm_eps=config.rms_eps, mask_token_id=ids[MASK],
        eos_token_id=ids[EOS], pad_token_id=ids[EOS], bos_token_id=ids[BOS], eot_token_id=ids[EOT],
        torch_dtype="bfloat16", tie_word_embeddings=False, use_cache=False)
    if config.experts:
        return dict(
            architectures=["LLaDAMoEModelLM"], model_type="llada_moe", hidden_size=config.width,
            num_hidden_layers=config.layers, num_attention_heads=config.heads, num_key_value_heads=config.heads,
            head_dim=config.head_dim, num_experts=config.experts, num_experts_per_tok=config.experts_used,
            expert_intermediate_size=config.ffn_width, moe_intermediate_size=config.ffn_width,
            dense_intermediate_size=config.ffn_width * config.experts_used, shared_expert_intermediate_size=None,
            norm_topk_prob=True, llada_renormalise_gates=True,  # LLaDA-MoE's own code does not read the first
            moe_router_score_function="softmax", moe_layer_freq=[1] * config.layers,
            qk_layernorm=True, attention_bias=False, hidden_act="silu", partial_rotary_factor=1, rope_scaling=None,
            routed_scaling_factor=1, router_aux_loss_coef=0.01, max_position_embeddings=config.context, **common)
    if config.attention_block:
        if config.attention_block != LLADA2_BLOCK:
            common[OWN_BLOCK_KEY] = config.attention_block
        return dict(
            architectures=["LLaDA2MoeModelLM"], model_type="llada2_moe", hidden_size=config.width,
            num_hidden_layers=config.layers, num_attention_heads=config.heads, num_key_value_heads=config.heads,
            head_dim=config.head_dim, intermediate_size=config.ffn_width, first_k_dense_replace=config.layers,
            num_experts=1, num_experts_per_tok=1, moe_intermediate_size=config.ffn_width, num_shared_experts=0,
            n_group=1, topk_group=1, use_qk_norm=False, partial_rotary_factor=1.0, hidden_act="silu", use_bias=False,
            use_qkv_bias=False, max_position_embeddings=config.context, **common)
    return dict(
        architectures=["LLaDAModelLM"], model_type="llada", block_type="llama", d_model=config.width,
        n_heads=config.heads, n_kv_heads=config.heads, n_layers=config.layers, mlp_hidden_size=config.ffn_width,
        mlp_ratio=config.ffn_width // config.width, embedding_size=config.vocab, max_sequence_length=config.context,
        activation_type="silu", layer_norm_type="rms", rope=True, rope_full_precision=True, alibi=False,
        include_bias=False, include_qkv_bias=False, bias_for_layer_norm=False, attention_layer_norm=False,
        weight_tying=False, scale_logits=False, input_emb_norm=False, multi_query_attention=None, **common)


def read_config(folder):
    fields = json.loads((pathlib.Path(folder) / "config.json").read_text())
    common = dict(vocab=fields["vocab_size"], rms_eps=fields["rms_norm_eps"], rope_theta=fields["rope_theta"])
    if fields["model_type"] == "llada_moe":
        return ModelConfig(
            width=fields["hidden_size"], layers=fields["num_hidden_layers"], heads=fields["num_attention_heads"],
            ffn_width=fields["expert_intermediate_size"], experts=fields["num_experts"],
            experts_used=fields["num_experts_per_tok"], context=fields["max_position_embeddings"], **common)
    if fields["model_type"] == "llada2_moe":
        return ModelConfig(
            width=fields["hidden_size"], layers=fields["num_hidden_layers"], heads=fields["num_attention_heads"],
            ffn_width=fields["intermediate_size"], context=fields["max_position_embeddings"],
            attention_block=fields.get(OWN_BLOCK_KEY, LLADA2_BLOCK), **common)
    return ModelConfig(width=fields["d_model"], layers=fields["n_layers"], heads=fields["n_heads"],
                       ffn_width=fields["mlp_hidden_size"], context=fields["max_sequence_length"], **common)


# ---------------------------------------------------------------- weights


def save_weights(path, model):
    """bf16, rounded to nearest even."""
    header, chunks, offset = {"__metadata__": {"format": "pt"}}, [], 0
    for name, tensor in file_tensors(model):
        rounded = tensor.detach().cpu().to(torch.bfloat16).contiguous()
        size = rounded.numel() * rounded.element_size()
        chunks.append(ctypes.string_at(rounded.data_ptr(), size))
        header[name] = {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the data starts aligned
    pathlib.Path(path).write_bytes(b"".join([len(text).to_bytes(8, "little"), text, *chunks]))


def load_model(folder):
    """-> the model with the file's bf16 weights widened to f32."""
    model = MaskedDiffusionModel(read_config(folder))
    data = bytearray((pathlib.Path(folder) / "model.safetensors").read_bytes())
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    with torch.no_grad():
        for name, tensor in file_tensors(model):
            entry = header.get(name, {})
            found, needed = (entry.get("dtype"), entry.get("shape")), ("BF16", list(tensor.shape))
            if found != needed:
                raise ValueError(f"{folder}: {name} is {found}, needed {needed}")
            offset = start + entry["data_offsets"][0]
            stored = torch.frombuffer(data, dtype=torch.bfloat16, count=tensor.numel(), offset=offset)
            tensor.copy_(stored.view(tensor.shape))
    return model.eval()
