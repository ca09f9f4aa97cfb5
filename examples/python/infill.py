"""Fills the gaps of a text.   infill.py MODEL 'Ken has 20+6=<mask:2> puzzles.'"""

import sys

import llada


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with llada.Model.load(sys.argv[1]) as model:
        result = model.infill(sys.argv[2])
        print(result)
        for token, state, confidence in zip(result.tokens, result.states, result.confidences):
            if state != "fixed":
                print(f"{confidence:.3f} {model.detokenize([token])!r}")


if __name__ == "__main__":
    main()
