// One answer on the page: its cells, the line below them, and once it is done the slider over its frames, and its text
// as a reader wants it where it has Markdown or formulas.
"use strict";

// Below one half a token was a guess; above nine tenths the usual thresholds would accept it. As in `llada run --live`.
function levelOf(confidence) {
  return confidence < 0.5 ? 0 : confidence < 0.9 ? 1 : 2;
}

class AnswerView {
  constructor(parent) {
    this.recording = new Recording();
    this.spans = [];
    this.shown = -1;  // the frame that is painted
    this.plain = false;  // true: the answer has a form, so that no character of it is Markdown
    this.root = make("div", "answer");
    this.cells = make("div", "cells");
    this.cells.setAttribute("aria-hidden", "true");  // the finished text is announced instead
    this.text = make("p", "away");
    this.line = make("p", "line", "waiting for the first step");
    this.root.append(this.cells, this.text, this.line);
    parent.append(this.root);
    this.cells.addEventListener("pointerover", (event) => this.tell(event.target));
    this.root.setAttribute("aria-busy", "true");
  }

  add(chunk) {
    const changed = this.recording.add(chunk);
    const last = this.recording.frames.length - 1;
    if (last < 0) return;
    const first = this.spans.length === 0;
    while (this.spans.length < this.recording.histories.length) this.newCell();
    if (first) this.root.scrollIntoView({ block: "nearest" });
    // What the frame before wrote is fresh no longer.
    const repaint = this.fresh ? new Set([...this.fresh, ...changed]) : changed;
    for (const cell of repaint) this.paint(cell, last);
    this.fresh = changed;
    this.shown = last;
    this.tellProgress(last);
  }

  newCell() {
    const span = make("span", "cell masked");
    span.dataset.cell = this.spans.length;
    this.spans.push(span);
    this.cells.append(span);
  }

  paint(cell, frame) {
    const now = this.recording.at(cell, frame);
    const span = this.spans[cell];
    const given = now.state === "given" || now.state === "fixed";
    let name = "cell " + (given ? "given" : now.state);
    if (now.state !== "masked" && !given) name += now.byForm ? " by-form" : " level-" + levelOf(now.confidence);
    if (now.frame === frame && !given) name += " fresh";
    if (this.content !== undefined && cell >= this.content) name += " behind";
    if (span.className !== name) span.className = name;
    if (span.textContent !== now.text) span.textContent = now.text;
  }

  show(frame) {
    for (let cell = 0; cell < this.spans.length; ++cell) this.paint(cell, frame);
    this.shown = frame;
    // Behind the text lie end tokens and masks that nobody needed: seen while it formed, not in the answer.
    this.cells.toggleAttribute("data-final", frame === this.recording.frames.length - 1);
    this.tellProgress(frame);
  }

  tellProgress(frame) {
    const f = this.recording.frames[frame];
    this.line.textContent =
        `step ${f.step + 1}` + (f.masksLeft > 0 ? `, ${plural(f.masksLeft, "mask")} left` : ", all decided") +
        (f.forwards !== undefined ? ", " + plural(f.forwards, "forward") : "");
  }

  // "stop" and "length" come from the server; "stopped" was the reader's wish.
  done(finish) {
    const recording = this.recording;
    recording.finish = finish || recording.finish;
    if (this.textOf && recording.finish !== "stopped") recording.text = this.textOf(recording);
    this.root.setAttribute("aria-busy", "false");
    this.fresh = undefined;
    const cells = recording.cellsOfText();
    if (cells >= 0 && recording.finish !== "stopped") this.content = cells;
    if (recording.frames.length > 0) this.show(recording.frames.length - 1);
    this.text.textContent = recording.text;
    const text = this.plain || this.textOf || recording.finish === "stopped" ? null : formatted(recording.text);
    if (text) this.addReading("reading", text);
    else if (cells < 0 || recording.frames.length === 0) this.addReading("cells plain", recording.text);
    this.summary();
    if (recording.frames.length > 1) this.addReplay();
    if (text && recording.frames.length > 0) this.addConfidence();
    if (recording.text) this.row().append(copyButton("Copy the answer", () => recording.text));
    if (recording.frames.length > 0) this.addTokens();
  }

  // The last picture of an answer with formatted text, or of one whose tokens end within a character. The slider
  // still shows the cells.
  addReading(className, content) {
    this.reading = make("div", className);
    this.reading.append(content);
    this.cells.before(this.reading);
    this.showReading(true);
  }

  showReading(shown) {
    this.reading.hidden = !shown;
    this.cells.hidden = shown;
    this.text.hidden = shown;  // a screen reader has it once
  }

  addConfidence() {
    const show = (asCells) => {
      this.asCells = asCells;
      button.setAttribute("aria-pressed", String(asCells));
      this.pause();
      this.seek(this.recording.frames.length - 1);
    };
    const button = makeButton("quiet small", "Confidence", () => {
      show(!this.asCells);
      kept.set("cells", this.asCells);  // the next answers are shown likewise
    });
    show(kept.get("cells", false));
    button.title = "The tokens in the colours of how sure the model was of each";
    this.row().append(button);
  }

  // The row of buttons below the answer.
  row() {
    return this.root.querySelector(".replay") || this.root.appendChild(make("div", "replay"));
  }

  summary() {
    const recording = this.recording;
    const parts = [];
    const usage = recording.usage;
    if (recording.finish === "stopped") parts.push("stopped");
    if (recording.finish === "length" && !this.textOf) parts.push("cut at its length");
    if (usage) parts.push(plural(usage.completion_tokens, "token"));
    if (recording.forwards()) parts.push(plural(recording.forwards(), "forward"));
    if (usage && recording.forwards())
      parts.push(`${(usage.completion_tokens / recording.forwards()).toFixed(1)} tokens per forward`);
    if (recording.tokensPerSecond()) parts.push(`${recording.tokensPerSecond().toFixed(0)} tokens per second`);
    this.summaryText = parts.join(" · ");
    this.line.textContent = this.summaryText;
  }

  // retry(): asks again.
  fail(error, retry) {
    this.recording.finish = "failed";
    this.root.setAttribute("aria-busy", "false");
    const box = make("div", "error failed");
    box.setAttribute("role", "alert");
    const button = makeButton("quiet small retry", "Retry", retry);
    box.append(make("p", "", error.message), button);
    this.line.replaceWith(box);
    if (this.recording.frames.length === 0) this.cells.remove();
  }

  addReplay() {
    const last = this.recording.frames.length - 1;
    const row = make("div", "replay");
    const label = make("label", "away", "Step");
    this.slider = make("input");
    Object.assign(this.slider, { type: "range", min: 0, max: last, value: last, id: "step-" + AnswerView.next++ });
    label.htmlFor = this.slider.id;
    this.play = makeButton("quiet small", "Replay", () => (this.timer ? this.pause() : this.replay()));
    this.slider.addEventListener("input", () => {
      this.pause();
      this.seek(Number(this.slider.value));
    });
    row.append(this.play, label, this.slider);
    this.root.append(row);
  }

  seek(frame) {
    const last = this.recording.frames.length - 1;
    if (this.slider) {
      this.slider.value = frame;
      this.slider.setAttribute("aria-valuetext", `step ${this.recording.frames[frame].step + 1}`);
    }
    this.show(frame);
    if (this.reading) this.showReading(frame === last && !this.asCells);
    if (frame === last) this.line.textContent = this.summaryText;
  }

  // All frames within about three seconds, whatever their number, at least a tenth of a second where few.
  replay() {
    const last = this.recording.frames.length - 1;
    let frame = Number(this.slider.value) >= last ? 0 : Number(this.slider.value);
    const pause = Math.min(250, Math.max(16, 3000 / (last + 1)));
    this.seek(frame);
    this.play.textContent = "Pause";
    this.timer = setInterval(() => {
      this.seek(++frame);
      if (frame >= last) this.pause();
    }, pause);
  }

  pause() {
    if (!this.play) return;
    clearInterval(this.timer);
    this.timer = undefined;
    this.play.textContent = "Replay";
  }

  // What a cell says when pointed at, made only then.
  tell(span) {
    const cell = span.dataset.cell;
    if (cell !== undefined && this.shown >= 0) span.title = this.said(Number(cell), this.shown);
  }

  said(cell, frame) {
    const now = this.recording.at(cell, frame);
    if (now.frame === undefined) return "not decided";
    if (now.state === "given" || now.state === "fixed") return "given";
    return [
      JSON.stringify(now.text), now.byForm ? "fixed by the form" : `${(100 * now.confidence).toFixed(1)} % sure`,
      `step ${this.recording.frames[now.frame].step + 1}`, now.state === "visible" ? "may still change" : "final",
    ].join(", ");
  }

  // The same as a list, for the keyboard, a finger and a screen reader; made when it is opened.
  addTokens() {
    const details = make("details", "tokens");
    const list = make("ol");
    details.append(make("summary", "", "Tokens"), list);
    details.addEventListener("toggle", () => {
      if (list.childElementCount > 0) return;
      const last = this.recording.frames.length - 1;
      const count = this.content === undefined ? this.spans.length : this.content;
      for (let cell = 0; cell < count; ++cell) {
        const said = this.said(cell, last);
        if (said !== "given") list.append(make("li", "", said));
      }
    });
    this.root.append(details);
  }
}
AnswerView.next = 0;
