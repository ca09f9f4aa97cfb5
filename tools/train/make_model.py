#!/usr/bin/env python3
"""Makes a model from nothing: data, tokenizer, training, export. See README.md beside this file.

    python3 tools/train/make_model.py --out DIR --smoke                     two minutes, a toy
    python3 tools/train/make_model.py --out DIR --minutes 600 --moe         both architectures
    python3 tools/train/make_model.py --out DIR --minutes 60 --from MODEL   more training for finished dense weights
"""
import argparse
import pathlib

import torch

import data
import model as models
import tokenizer as tokenizers
from export import export
from hf_folder import load_model
from train import CONTINUE_PHASES, DENSE_PHASES, MIXTURE_PHASES, Budget, Settings, Trainer, pick_device
from upcycle import upcycle

DENSE_SHARE = 0.75  # of the budget, where a mixture is trained as well
TOKENIZER_EXAMPLES = 20000


class Recipe:
    """What differs between the real run and the smoke run."""

    def __init__(self, smoke):
        self.config = models.SMOKE if smoke else models.DENSE
        self.examples = 6000 if smoke else 220000
        self.batch_size = 16 if smoke else 48
        # Short responses, so that two minutes hold many steps; useful answers take hours all the same.
        self.tasks = {data.sort, data.json_record, data.copy, data.drill} if smoke else None

    def mix(self, mix):
        return {task: weight for task, weight in mix.items() if self.tasks is None or task in self.tasks}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, required=True,
                        help="folder for models and checkpoints; a run that was stopped resumes from it")
    parser.add_argument("--minutes", type=float,
                        help="training time, all phases together (default: 2 with --smoke, else 600)")
    parser.add_argument("--steps", type=int, default=0, help="budget in optimizer steps instead of minutes")
    parser.add_argument("--moe", action="store_true",
                        help="a quarter of the budget goes to a mixture of experts, upcycled from the dense model")
    parser.add_argument("--smoke", action="store_true", help="a toy model on the short tasks")
    parser.add_argument("--from", dest="start", type=pathlib.Path, metavar="MODEL",
                        help="a dense model: train it further, or, with --moe, upcycle it instead of training one")
    parser.add_argument("--lr", type=float, default=3e-3,
                        help="learning rate of Muon, twice that of AdamW (0.003; less for finished weights)")
    parser.add_argument("--batch-size", type=int, help="sequences per step (48; 16 with --smoke)")
    parser.add_argument("--examples", type=int, help="new examples per phase (220000; 6000 with --smoke)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1 ...")
    parser.add_argument("--bf16", action="store_true",
                        help="bf16 matrix products; always on a GPU, on a CPU with instructions for them")
    args = parser.parse_args()
    args.minutes = args.minutes or (2.0 if args.smoke else 600.0)
    return args


def train_tokenizer(folder, recipe):
    """Once per output folder; the same for both architectures."""
    if not (folder / "tokenizer.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        # Not narrowed in a smoke run: its tokenizer then is the one of the full run.
        examples = data.training_examples(min(TOKENIZER_EXAMPLES, recipe.examples), seed=1)
        texts = [text for e in examples for text in (e.prompt, "user", "assistant", e.response)]
        tokenizers.save(folder, *tokenizers.train(texts))
    return tokenizers.Tokenizer(folder)


def train_stage(name, model, phases, share, args, recipe, tokenizer, average=0.995, **more):
    """Trains one architecture on its share of the budget. -> its averaged weights"""

    def make_examples(phase, mix):
        # Each phase has new examples: at the pace of the full run each is seen a few times only.
        return data.training_examples(args.examples or recipe.examples, seed=100 + 10 * args.seed + phase,
                                      mix=recipe.mix(mix))

    budget = Budget(minutes=args.minutes * share, steps=int(args.steps * share))
    device = pick_device(args.device)
    settings = Settings(budget, phases, lr=args.lr, batch_size=args.batch_size or recipe.batch_size, seed=args.seed,
                        average=average, device=device, bf16=args.bf16 or device.startswith("cuda"), **more)
    size = sum(parameter.numel() for parameter in model.parameters())
    print(f"{name}: {size:,} parameters on {settings.device}", flush=True)
    log = lambda line: print(f"{name}: {line}", flush=True)
    return Trainer(model, tokenizer, make_examples, settings, args.out / f"{name}.checkpoint", log).run()


def main():
    args = parse_arguments()
    torch.manual_seed(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    recipe = Recipe(args.smoke)
    if args.start:
        tokenizer_folder, dense = args.start, load_model(args.start)
        tokenizer = tokenizers.Tokenizer(tokenizer_folder)
        if not args.moe:
            # Fewer steps than a run from nothing has: a shorter average.
            dense = train_stage("dense", dense, CONTINUE_PHASES, 1.0, args, recipe, tokenizer, average=0.98, decay=0.5,
                                guide_lookups=dense.config.layers > max(models.LOOKUP_LAYERS))
            export(dense, tokenizer_folder, args.out / "tiny-llada")
            print(f"wrote {args.out / 'tiny-llada'}")
    else:
        tokenizer_folder = args.out / "tokenizer"
        tokenizer = train_tokenizer(tokenizer_folder, recipe)
        start = models.MaskedDiffusionModel(recipe.config).initialize(args.seed)
        dense = train_stage("dense", start, DENSE_PHASES, DENSE_SHARE if args.moe else 1.0, args, recipe, tokenizer)
        export(dense, tokenizer_folder, args.out / "tiny-llada")
        print(f"wrote {args.out / 'tiny-llada'}")
    if args.moe:
        examples = data.training_examples(1000, seed=3)
        start = upcycle(dense, models.mixture_of(dense.config), tokenizer, examples, seed=args.seed + 1)
        share = 1.0 if args.start else 1 - DENSE_SHARE
        mixture = train_stage("mixture", start, MIXTURE_PHASES, share, args, recipe, tokenizer)
        export(mixture, tokenizer_folder, args.out / "tiny-llada-moe")
        print(f"wrote {args.out / 'tiny-llada-moe'}")


if __name__ == "__main__":
    main()
