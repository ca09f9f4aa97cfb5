#!/usr/bin/env python3
"""Writes a dense model folder as GGUF in llama.cpp's dialect with llama.cpp's own Python library (PyPI: gguf), which also
rounds the weights: a peer's file for tests/data/peer, whose reading owes nothing to our writer.

    python3 tools/train/peer_gguf.py models/tiny-llada bf16 tests/data/peer/tiny-llada-bf16.gguf
"""
import argparse
import json
import pathlib

import gguf
import numpy
import torch

from hf_folder import load_model
from tokenizer import Tokenizer

TYPES = {"bf16": (gguf.GGMLQuantizationType.BF16, gguf.LlamaFileType.MOSTLY_BF16),
         "q8_0": (gguf.GGMLQuantizationType.Q8_0, gguf.LlamaFileType.MOSTLY_Q8_0),
         "q4_0": (gguf.GGMLQuantizationType.Q4_0, gguf.LlamaFileType.MOSTLY_Q4_0)}
BLOCK_NAMES = {"attn_norm": "attn_norm", "attn.q": "attn_q", "attn.k": "attn_k", "attn.v": "attn_v",
               "attn.o": "attn_output", "ff_norm": "ffn_norm", "mlp.gate": "ffn_gate", "mlp.up": "ffn_up",
               "mlp.down": "ffn_down"}


def adjacent_pairs(weight, heads):
    """llama.cpp turns neighbouring elements of a head together, the folder's model element j and j + K/2."""
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def named_tensors(model):
    parameters, heads = dict(model.named_parameters()), model.config.heads
    yield "token_embd", parameters["embed.weight"]
    yield "output_norm", parameters["norm.weight"]
    yield "output", parameters["head.weight"]
    for i in range(model.config.layers):
        for ours, name in BLOCK_NAMES.items():
            weight = parameters[f"blocks.{i}.{ours}.weight"]
            yield f"blk.{i}.{name}", adjacent_pairs(weight, heads) if ours in ("attn.q", "attn.k") else weight


def token_lists(folder):
    """-> texts, kinds and merges in the order of ids, as tokenizer.json has them."""
    read = json.loads((folder / "tokenizer.json").read_text())
    size = json.loads((folder / "config.json").read_text())["vocab_size"]
    texts = [f"[PAD{i}]" for i in range(size)]
    kinds = [gguf.TokenType.UNUSED] * size
    for text, i in read["model"]["vocab"].items():
        texts[i], kinds[i] = text, gguf.TokenType.NORMAL
    for added in read["added_tokens"]:
        texts[added["id"]], kinds[added["id"]] = added["content"], gguf.TokenType.CONTROL
    return texts, kinds, [m if isinstance(m, str) else " ".join(m) for m in read["model"]["merges"]]


def write(folder, kind, path):
    model, tokenizer = load_model(folder), Tokenizer(folder)
    config, (tensor_type, file_type) = model.config, TYPES[kind]
    out = gguf.GGUFWriter(path, "llada")
    out.add_name(folder.resolve().name)
    out.add_block_count(config.layers)
    out.add_context_length(config.context)
    out.add_embedding_length(config.width)
    out.add_feed_forward_length(config.ffn_width)
    out.add_head_count(config.heads)
    out.add_head_count_kv(config.heads)
    out.add_layer_norm_rms_eps(config.rms_eps)
    out.add_rope_freq_base(config.rope_theta)
    out.add_rope_dimension_count(config.head_dim)
    out.add_vocab_size(config.vocab)
    out.add_causal_attention(False)
    out.add_bool("diffusion.shift_logits", False)
    texts, kinds, merges = token_lists(folder)
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("bailingmoe")
    out.add_token_list(texts)
    out.add_token_types(kinds)
    out.add_token_merges(merges)
    out.add_bos_token_id(tokenizer.bos)
    out.add_eos_token_id(tokenizer.eos)
    out.add_pad_token_id(tokenizer.eos)
    out.add_eot_token_id(tokenizer.eot)
    out.add_mask_token_id(tokenizer.mask)
    out.add_add_bos_token(False)
    out.add_chat_template(json.loads((folder / "tokenizer_config.json").read_text())["chat_template"])
    out.add_file_type(file_type)
    for name, weight in named_tensors(model):
        values = weight.detach().to(torch.float32).numpy()
        kept = tensor_type if values.ndim == 2 else gguf.GGMLQuantizationType.F32
        packed = gguf.quants.quantize(numpy.ascontiguousarray(values), kept)
        out.add_tensor(f"{name}.weight", packed, raw_dtype=kept)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("type", choices=TYPES)
    parser.add_argument("path", type=pathlib.Path)
    arguments = parser.parse_args()
    write(arguments.folder, arguments.type, arguments.path)


if __name__ == "__main__":
    main()
