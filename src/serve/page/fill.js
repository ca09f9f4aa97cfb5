// Gaps in a text, filled where they stand.
"use strict";

// The shipped model knows such sums.
const kExample = "Ken has 20+6=<mask:2> puzzles. Theo has 26-3=<mask:2> puzzles.";

// The template with what its gaps hold; single tokens may not spell it, since a character can begin in one and end in
// another.
function filled(template, spans) {
  let next = 0;
  return template.replace(/<mask(:(auto:)?\d+|:auto)?>/g, (gap) => (next < spans.length ? spans[next++].text : gap));
}

class Fill {
  constructor(page) {
    this.page = page;
    this.text = document.getElementById("fill-text");
    this.button = document.getElementById("fill-send");
    kept.field(this.text);
    if (this.text.value === "") this.text.value = kExample;
    document.getElementById("make-gap").addEventListener("click", () => this.makeGap());
    document.getElementById("fill-form").addEventListener("submit", (event) => {
      event.preventDefault();
      page.work.pressed(this.button, () => this.run());
    });
  }

  makeGap() {
    const length = document.getElementById("gap-length");
    if (!length.reportValidity() || length.value === "") return;
    const { selectionStart, selectionEnd } = this.text;
    this.text.setRangeText(`<mask:${length.value}>`, selectionStart, selectionEnd, "end");
    kept.set(this.text.id, this.text.value);
    this.text.focus();
  }

  retry() {
    if (!this.page.work.busy) this.run();
  }

  async run() {
    const place = document.getElementById("fill-answer");
    place.replaceChildren();
    const view = new AnswerView(place);
    await this.page.work.run(this.button, async (signal) => {
      const { gen_length, ...llada } = this.page.settings.values();  // the gaps say how long they are
      const body = { text: this.text.value, llada, stream_options: { include_usage: true } };
      const template = body.text;
      view.textOf = (recording) => filled(template, recording.spans || []);
      if (!(await streamInto(view, this.page.server, "infill", body, signal, () => this.retry()))) return;
      announce("Filled: " + view.recording.text);
      view.row().append(makeButton("quiet small", "Use as the text", () => {
        this.text.value = view.recording.text;
        kept.set(this.text.id, this.text.value);
        this.text.focus();
      }));
    });
  }
}
