// One answer as it forms: what every position held after every frame. Knows nothing of the page.
"use strict";

const kMasked = { text: "", state: "masked", confidence: 0 };

class Recording {
  constructor() {
    this.histories = [];  // of a position: [{frame, text, state, confidence, byForm}], frames rising
    this.frames = [];     // {step, masksLeft, forwards, rows, seconds}
    this.begin = 0;       // position of the first cell
    this.text = "";       // what is final so far
    this.calls = [];      // of functions: {id, name, arguments}
    this.usage = null;
    this.spans = null;    // of infilling, at the end: what each gap holds
    this.finish = null;   // "stop", "length", "stopped" here, or "failed"
    this.started = performance.now();
  }

  // One chunk of a stream (docs/server.md, "Frames"). Returns the cells that it changed.
  add(chunk) {
    const choice = chunk.choices && chunk.choices[0];
    if (choice) {
      this.text += (choice.delta && choice.delta.content) || choice.text || "";
      for (const part of (choice.delta && choice.delta.tool_calls) || []) this.addCall(part);
      if (choice.finish_reason) this.finish = choice.finish_reason;
    }
    if (chunk.usage) this.usage = chunk.usage;
    if (chunk.spans) this.spans = chunk.spans;
    const frame = chunk.llada;
    // The last event of a stream only sums up.
    const shows = frame && frame.edits && (frame.edits.length > 0 || frame.canvas);
    return shows ? this.addFrame(frame) : [];
  }

  // A call comes in parts: its name with the first, its arguments piece by piece.
  addCall(part) {
    const call = this.calls[part.index] ??= { id: "", name: "", arguments: "" };
    const said = part.function || {};
    call.id ||= part.id || "";
    call.name ||= said.name || "";
    call.arguments += said.arguments || "";
  }

  addFrame(frame) {
    if (frame.canvas) {
      this.begin = frame.canvas.begin;
      this.grow(frame.canvas.length);
    }
    const at = this.frames.length;
    this.frames.push({
      step: frame.step, masksLeft: frame.masks_left, forwards: frame.forwards, rows: frame.rows,
      seconds: (performance.now() - this.started) / 1000,
    });
    const changed = [];
    for (const edit of frame.edits) {
      const cell = edit.position - this.begin;
      if (cell < 0) continue;
      this.grow(cell + 1);
      this.histories[cell].push({ frame: at, text: edit.text, state: edit.state,
                                  confidence: edit.confidence ?? 0, byForm: edit.by_form === true });
      changed.push(cell);
    }
    return changed;
  }

  grow(cells) {
    while (this.histories.length < cells) this.histories.push([]);
  }

  // What a cell held after a frame; `fresh` where that frame wrote it.
  at(cell, frame) {
    const history = this.histories[cell];
    for (let i = history.length - 1; i >= 0; --i)
      if (history[i].frame <= frame) return history[i];
    return kMasked;
  }

  // How many cells the final text takes: what follows was cut at a stop string or lies behind the end. -1: the text
  // is not what the cells say one after the other, as where a character began in one token and ended in the next.
  cellsOfText() {
    const last = this.frames.length - 1;
    // Calls are not said as the cells write them: all that is written is theirs.
    if (this.calls.length > 0) return this.histories.findLastIndex((_, cell) => this.at(cell, last).text !== "") + 1;
    let joined = "";
    let cells = 0;
    while (cells < this.histories.length && joined.length < this.text.length)
      joined += this.at(cells++, last).text;
    return joined.startsWith(this.text) ? cells : -1;
  }

  forwards() {
    const last = this.frames[this.frames.length - 1];
    return this.usage && this.usage.forwards !== undefined ? this.usage.forwards : last ? last.forwards : 0;
  }

  // Of decoding as the server measured it, else of the time seen from here.
  tokensPerSecond() {
    if (!this.usage) return 0;
    const last = this.frames[this.frames.length - 1];
    const seconds = this.usage.seconds || (last ? last.seconds : 0);
    return seconds > 0 ? this.usage.completion_tokens / seconds : 0;
  }
}
