"""Answers to prompts, several in each forward.   generate.py MODEL PROMPT..."""

import sys

import llada


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    with llada.Model.load(sys.argv[1]) as model:
        for prompt, result in zip(sys.argv[2:], model.generate_many(sys.argv[2:], streams=4)):
            print(f"{prompt}\n{result}\n({result.stats.tokens_per_forward:.1f} tokens per forward)\n")


if __name__ == "__main__":
    main()
