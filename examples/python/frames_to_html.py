"""Every frame of an answer as a notebook shows it, in one page.   frames_to_html.py MODEL PROMPT PAGE.html"""

import html
import pathlib
import sys

import llada


def main() -> None:
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    _, path, prompt, page = sys.argv
    with llada.Model.load(path) as model:
        frames = "\n".join(frame._repr_html_() for frame in model.stream(prompt))
    title = html.escape(prompt)
    text = f"<!doctype html>\n<meta charset=utf-8>\n<title>{title}</title>\n<h1>{title}</h1>\n{frames}\n"
    pathlib.Path(page).write_text(text, encoding="utf-8")
    print(f"wrote {page}")


if __name__ == "__main__":
    main()
