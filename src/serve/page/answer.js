// One answer on the page: its cells, the line below them, and the slider over its frames once it is done.
"use strict";

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

// Below one half a token was a guess; above nine tenths the usual thresholds would accept it. As in `llada run --live`.
function levelOf(confidence) {
  return confidence < 0.5 ? 0 : confidence < 0.9 ? 1 : 2;
}

class AnswerView {
  constructor(parent) {
    this.recording = new Recording();
    this.spans = [];
    this.shown = -1;  // the frame that is painted
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
    if (cells < 0 || recording.frames.length === 0) this.showPlain();
    this.summary();
    if (recording.frames.length > 1) this.addReplay();
    this.addCopy();
    if (recording.frames.length > 0) this.addTokens();
  }

  // Where tokens end within a character, the last picture is the text itself; the slider still shows the cells.
  showPlain() {
    this.plain = make("div", "cells plain", this.recording.text);
    this.plain.setAttribute("aria-hidden", "true");
    this.cells.before(this.plain);
    this.cells.hidden = true;
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
    const button = make("button", "quiet small retry", "Retry");
    button.type = "button";
    button.addEventListener("click", retry);
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
    this.play = make("button", "quiet small", "Replay");
    this.play.type = "button";
    this.slider.addEventListener("input", () => {
      this.pause();
      this.seek(Number(this.slider.value));
    });
    this.play.addEventListener("click", () => (this.timer ? this.pause() : this.replay()));
    row.append(this.play, label, this.slider);
    this.root.append(row);
  }

  seek(frame) {
    const last = this.recording.frames.length - 1;
    this.slider.value = frame;
    this.slider.setAttribute("aria-valuetext", `step ${this.recording.frames[frame].step + 1}`);
    this.show(frame);
    if (this.plain) {
      this.plain.hidden = frame !== last;
      this.cells.hidden = frame === last;
    }
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
    clearInterval(this.timer);
    this.timer = undefined;
    this.play.textContent = "Replay";
  }

  addCopy() {
    if (!this.recording.text || !navigator.clipboard) return;
    const copy = make("button", "quiet small", "Copy");
    copy.type = "button";
    copy.addEventListener("click", async () => {
      await navigator.clipboard.writeText(this.recording.text);
      copy.textContent = "Copied";
    });
    const row = this.root.querySelector(".replay") || this.root.appendChild(make("div", "replay"));
    row.append(copy);
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
