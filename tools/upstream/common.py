"""What the scripts of this folder share: random weights, model folders, running `llada` on them, comparing, the table.

A script builds a small model of random weights in the class that a model was published with, saves it as a folder,
runs `llada logits` and `llada run` on the folder, and compares logits and token ids with the class's own. All weights
are 32-bit floats, so that what differs is the computation and not the rounding of weights.
"""
import argparse
import contextlib
import importlib
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import types

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
VOCABULARY, MASK, EOS, BOS = 320, 300, 301, 302  # ids 0 to 255 are bytes; llada writes no id without a text
LOGIT_TOLERANCE = 2e-3  # of logits whose standard deviation is 3 to 8; 32-bit sums in another order stay below 5e-4
IDS_NEEDED = 0.85  # share of the generations that must be equal: their confidences are single precision and tie where ours do not


class Unavailable(Exception):
    """The published code, or a package that it needs, is not here."""


def arguments(description, checkout=None):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    if checkout:
        parser.add_argument("--checkout", type=pathlib.Path, help=checkout)
    parser.add_argument("--llada", default=ROOT / "build/release/bin/llada", help="the program (build/release/bin/llada)")
    parser.add_argument("--seed", type=int, default=1, help="of the weights and prompts (1)")
    parser.add_argument("--verbose", action="store_true", help="print generations that differ")
    parser.add_argument("--quick", action="store_true", help="half of the models, one generation each")
    return parser


# ---------------------------------------------------------------- the published code


def stand_in(name, **members):
    """A module that the published file imports and that this comparison does not need (kernels, training)."""
    parts = name.split(".")
    for i in range(1, len(parts) + 1):
        path = ".".join(parts[:i])
        if path not in sys.modules:
            sys.modules[path] = types.ModuleType(path)
            sys.modules[path].__path__ = []
            if i > 1:
                setattr(sys.modules[".".join(parts[: i - 1])], parts[i - 1], sys.modules[path])
    for key, value in members.items():
        setattr(sys.modules[name], key, value)


def package_of(folder):
    return f"published_{abs(hash(pathlib.Path(folder).resolve()))}"


def load(folder, module):
    """`module` of the package that `folder` is; its relative imports work, its __init__.py is not run."""
    folder = pathlib.Path(folder)
    if not (folder / f"{module}.py").is_file():
        raise Unavailable(f"{folder}: no {module}.py there")
    package = package_of(folder)
    if package not in sys.modules:
        sys.modules[package] = types.ModuleType(package)
    sys.modules[package].__path__ = [str(folder)]
    try:
        return importlib.import_module(f"{package}.{module}")
    except ImportError as error:
        raise Unavailable(f"{folder}/{module}.py: {error}") from error


def place(checkout, module, *folders):
    """The folder of the checkout that holds module.py: the checkout itself or one of `folders`."""
    for folder in ("", *folders):
        if (checkout / folder / f"{module}.py").is_file():
            return checkout / folder
    raise Unavailable(f"{checkout}: {module}.py is not there; looked in {', '.join(['it'] + list(folders))}")


# ---------------------------------------------------------------- models


@torch.no_grad()
def randomise(model, seed):
    """Weights that make peaked logits, norms and biases that are not the ones and zeros of a new model."""
    generator = torch.Generator().manual_seed(seed)
    for name, value in [*model.named_parameters(), *model.named_buffers()]:
        noise = torch.randn(value.shape, generator=generator)
        if name.endswith("inv_freq"):
            continue
        if name.endswith("expert_bias"):
            value.copy_(0.1 * noise)
        elif name.endswith(("ln_f.weight", "model.norm.weight")):
            value.copy_(noise)  # signs too: a tied head would otherwise predict the token that it is given
        elif name.endswith("bias"):
            value.copy_(0.3 * noise)
        elif value.dim() == 1:
            value.copy_(1 + 0.2 * noise)
        elif any(part in name for part in ("wte", "embed_tokens", "word_embeddings")):
            value.copy_(0.5 * noise)
        else:
            head = "head" in name or name.endswith("transformer.ff_out.weight")
            value.copy_((5 if head else 1.2) * noise / value.shape[-1] ** 0.5)
            if head:
                value[MASK] = 0  # never the best token: published loops take the mask for an answer, llada does not


def byte_alphabet():
    """Byte-level BPE's characters for bytes, and every byte's id."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return {**{chr(b): b for b in plain}, **{chr(256 + i): b for i, b in enumerate(others)}}


def write_tokenizer(folder):
    special = {"<|mdm_mask|>": MASK, "<|endoftext|>": EOS, "<|startoftext|>": BOS}
    added = [dict(id=i, content=text, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
             for text, i in special.items()]
    added += [dict(added[0], id=i, content=f"<word{i}>", special=False) for i in range(256, VOCABULARY) if i not in special.values()]
    tokenizer = dict(
        version="1.0", truncation=None, padding=None, added_tokens=added, normalizer=None,
        pre_tokenizer=dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True),
        post_processor=None, decoder=dict(type="ByteLevel", add_prefix_space=True, trim_offsets=True, use_regex=True),
        model=dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None, end_of_word_suffix=None,
                   fuse_unk=False, byte_fallback=False, vocab=byte_alphabet(), merges=[]))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps(dict(mask_token="<|mdm_mask|>", add_bos_token=False)))


def save(folder, model, architecture, config=None, without=(), extra=None):
    """The model as a folder: its config.json as its class writes it, less the keys `without`."""
    from safetensors.torch import save_file
    fields = dict(config or json.loads(model.config.to_json_string()))
    for key in without:
        fields.pop(key, None)
    fields.update(architectures=[architecture], mask_token_id=MASK, eos_token_id=EOS, pad_token_id=EOS, **(extra or {}))
    (folder / "config.json").write_text(json.dumps(fields, indent=1))
    weights, seen = {}, set()
    for name, value in model.state_dict().items():
        if name.endswith("inv_freq") or (value.numel() and value.data_ptr() in seen):  # a tied head is stored once
            continue
        seen.add(value.data_ptr())
        weights[name] = value.float().contiguous().clone()
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    write_tokenizer(folder)


def save_pretrained(folder, model, architecture, keys):
    """The model as the installed package saves it, under another class's name and with `keys` in config.json."""
    model.save_pretrained(folder)
    fields = json.loads((folder / "config.json").read_text())
    fields.update(architectures=[architecture], mask_token_id=MASK, **keys)
    (folder / "config.json").write_text(json.dumps(fields, indent=1))
    write_tokenizer(folder)


# ---------------------------------------------------------------- llada


def run_llada(program, *words, text=None):
    done = subprocess.run([str(program), *map(str, words)], input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"llada {' '.join(map(str, words))}: status {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def our_logits(program, folder, ids, *options):
    out = folder / "rows.f32"
    shape = run_llada(program, "logits", "-m", folder, "--ids", "-", "-o", out, "--json", *options,
                      text=" ".join(map(str, ids)))
    return torch.frombuffer(bytearray(out.read_bytes()), dtype=torch.float32).view(shape["rows"], shape["vocab"])


def our_ids(program, folder, prompt, *options):
    """The generated ids and the forwards that they took."""
    got = run_llada(program, "run", "-m", folder, "--raw", "-p", bytes(prompt).decode("ascii"), "--early-stop", "none",
                    "--preset-decode", "exact", "--json", *options)
    return got["tokens"], got["stats"]["nfe"]


# ---------------------------------------------------------------- comparing


class Comparison:
    """Collects rows of the table; `report` prints it and gives the exit status."""

    def __init__(self, title, args):
        self.title, self.args, self.rows = title, args, []
        self.random = random.Random(args.seed)

    def prompt(self, length):
        return [self.random.choice(b"abcdefghijklmnopqrstuvwxyz") for _ in range(length)]

    def canvas(self, length):
        ids = [self.random.randrange(256) for _ in range(length)]
        return [MASK if i > length // 3 and self.random.random() < 0.5 else t for i, t in enumerate(ids)]

    @contextlib.contextmanager
    def model(self, name):
        with tempfile.TemporaryDirectory(prefix="llada-upstream-") as folder:
            row = dict(name=name, worst=0.0, best=0, positions=0, equal=0, runs=0, why="")
            self.rows.append(row)
            self.row = row
            try:
                yield pathlib.Path(folder)
            except RuntimeError as error:
                row["why"] = str(error).splitlines()[0]

    def logits(self, theirs, ours):
        theirs = theirs.float()
        self.row["worst"] = max(self.row["worst"], (theirs - ours[:, : theirs.shape[1]]).abs().max().item())
        self.row["best"] += int((theirs.argmax(-1) == ours.argmax(-1)).sum())
        self.row["positions"] += theirs.shape[0]
        self.row["spread"] = theirs.std().item()

    def ids(self, theirs, ours, forwards=None):
        """Up to the first end token: behind it llada fills up with end tokens. forwards: (theirs, ours), if counted."""
        end = theirs.index(EOS) + 1 if EOS in theirs else len(theirs)
        if MASK in theirs[:end]:
            return  # their loop took the mask itself for an answer, which llada never does
        self.row["runs"] += 1
        equal = theirs[:end] == ours[:end] and (forwards is None or forwards[0] == forwards[1])
        self.row["equal"] += equal
        if not equal and self.args.verbose:
            print(f"{self.row['name']}: theirs {theirs[:end]} ours {ours} forwards {forwards}")

    def report(self):
        print(f"{self.title}\n")
        print("| model | logits: largest difference | standard deviation | best tokens equal | generations equal |")
        print("|---|---|---|---|---|")
        failed = []
        for row in self.rows:
            good = not row["why"] and row["positions"] > 0 and row["worst"] <= LOGIT_TOLERANCE and \
                row["best"] == row["positions"]
            if not good:
                failed.append(f"{row['name']}: {row['why'] or 'the logits differ'}")
            print(f"| {row['name']} | {row['worst']:.1e} | {row.get('spread', 0):.1f} | {row['best']} of "
                  f"{row['positions']} | {row['equal']} of {row['runs']} |")
        equal, runs = sum(row["equal"] for row in self.rows), sum(row["runs"] for row in self.rows)
        if equal < IDS_NEEDED * runs:
            failed.append(f"{equal} of {runs} generations are equal, {IDS_NEEDED:.0%} needed")
        print(f"\n{len(self.rows)} models, {equal} of {runs} generations equal, "
              f"{len(failed)} failed")
        for line in failed:
            print(f"FAILED {line}")
        return 1 if failed else 0


def generations(table, args, path, generate, model, runs):
    """The ids of LLaDA's published loop beside ours; runs: (prompt length, steps, gen, block)."""
    for length, steps, gen, block in runs[: 1 if args.quick else None]:
        prompt = table.prompt(length)
        theirs = generate(model, torch.tensor([prompt]), steps=steps, gen_length=gen, block_length=block, mask_id=MASK)
        ours, _ = our_ids(args.llada, path, prompt, "--gen-length", gen, "--block-length", block, "--steps", steps)
        table.ids(theirs[0, length:].tolist(), ours)


def main(work, args):
    """Exit status: 0 equal, 1 not, 2 wrong request, 3 the published code cannot be had here."""
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    try:
        if not pathlib.Path(args.llada).is_file():
            raise Unavailable(f"{args.llada}: not built")
        with torch.no_grad():
            return work(args)
    except (Unavailable, ModuleNotFoundError) as error:
        print(f"SKIPPED: {error}")
        return 3
