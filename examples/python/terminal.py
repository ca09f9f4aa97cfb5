"""An answer as it forms, in a terminal.   terminal.py MODEL PROMPT

Tokens that may still change are dim; what this step decided is bold."""

import sys

import llada

DIM, BOLD, PLAIN, HOME = "\033[2m", "\033[1m", "\033[0m", "\033[H\033[J"


def painted(frame: llada.Frame) -> str:
    changed = set(frame.edits)
    parts = []
    for position, token in enumerate(frame.tokens):
        style = BOLD if position in changed else DIM if token.state in ("masked", "visible") else ""
        parts.append(f"{style}{token.text}{PLAIN}" if style else token.text)
    return "".join(parts)


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with llada.Model.load(sys.argv[1]) as model:
        stream = model.stream(sys.argv[2])
        for frame in stream:
            print(f"{HOME if sys.stdout.isatty() else ''}{painted(frame)}\n{frame.masks_left} masks left", flush=True)
        print(stream.result)


if __name__ == "__main__":
    main()
