// The three tabs: a conversation, two settings on one prompt, gaps in a text. One runs at a time, and Esc stops it.
"use strict";

// running: what Esc and the stop button end.
class Work {
  constructor() {
    this.abort = null;
  }

  get busy() {
    return this.abort !== null;
  }

  stop() {
    if (this.abort) this.abort.abort();
  }

  // Runs body(signal), with `button` saying Stop meanwhile.
  async run(button, body) {
    const name = button.textContent;
    this.abort = new AbortController();
    button.textContent = "Stop";
    button.classList.add("stop");
    try {
      await body(this.abort.signal);
    } finally {
      this.abort = null;
      button.textContent = name;
      button.classList.remove("stop");
    }
  }
}

// Streams one answer into a view; true when it came to its end. retry(): what the button behind an error does.
async function streamInto(view, server, path, body, signal, retry) {
  try {
    await server.stream(path, { ...body, stream: true, diffusing: "frames" }, signal, (chunk) => view.add(chunk));
    view.done();
    return true;
  } catch (error) {
    if (signal.aborted) view.done("stopped");
    else view.fail(error, retry);
    return false;
  }
}

function announce(text) {
  document.getElementById("announce").textContent = text;
}

class Chat {
  constructor(page) {
    this.page = page;
    this.list = document.getElementById("messages");
    this.input = document.getElementById("prompt");
    this.send = document.getElementById("send");
    document.getElementById("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      if (page.work.busy) page.work.stop();
      else this.ask();
    });
    this.input.addEventListener("input", () => this.fit());
    document.getElementById("new-chat").addEventListener("click", () => this.clear());
    for (const sample of document.querySelectorAll(".sample"))
      sample.addEventListener("click", () => {
        if (page.work.busy) return;
        this.type(sample.textContent.replace(/\s+/g, " ").trim());
        this.ask();
      });
    kept.field(this.input, () => this.fit());
    this.restore();
  }

  fit() {
    this.input.style.height = "auto";
    this.input.style.height = Math.min(this.input.scrollHeight + 2, 240) + "px";
  }

  type(text) {
    this.input.value = text;
    kept.set("prompt", text);
    this.fit();
  }

  clear() {
    this.page.work.stop();
    this.keep([]);
    this.failed = undefined;
    this.list.replaceChildren();
    document.getElementById("welcome").hidden = false;
    this.input.focus();
  }

  // messages: [{role, content}], of an answer with the line below it.
  keep(messages) {
    this.messages = messages;
    kept.set("messages", messages);
  }

  // A conversation from before a reload: its text, without its steps.
  restore() {
    const known = kept.get("messages", []);
    const usable = Array.isArray(known) && known.every((m) => m && typeof m.content === "string");
    this.messages = usable ? known : [];
    document.getElementById("welcome").hidden = this.messages.length > 0;
    for (const message of this.messages) {
      if (message.role === "user") {
        this.addQuestion(message.content);
      } else {
        const answer = this.addAnswer();
        answer.append(make("div", "cells", message.content), make("p", "line", message.line || ""));
      }
    }
    this.list.scrollTop = this.list.scrollHeight;
  }

  addQuestion(text) {
    const asked = make("article", "message user");
    asked.append(make("h2", "away", "You"), make("p", "", text));
    this.list.append(asked);
    return asked;
  }

  addAnswer() {
    const answered = make("article", "message");
    answered.append(make("h2", "away", "Answer"));
    this.list.append(answered);
    return answered;
  }

  async ask() {
    const prompt = this.input.value;
    if (prompt.trim() === "") return;
    document.getElementById("welcome").hidden = true;
    for (const article of this.failed || []) article.remove();
    this.failed = undefined;
    this.type("");
    const asked = this.addQuestion(prompt), answered = this.addAnswer();
    const view = new AnswerView(answered);
    answered.scrollIntoView({ block: "nearest" });
    const question = { role: "user", content: prompt };
    const messages = this.messages;
    const before = this.page.single ? [] : messages.map(({ role, content }) => ({ role, content }));
    await this.page.work.run(this.send, async (signal) => {
      const body = this.page.chatBody([...before, question]);
      const retry = () => this.retry(prompt);
      if (await streamInto(view, this.page.server, "v1/chat/completions", body, signal, retry)) {
        // Another conversation may have begun meanwhile; an answer that was stopped is not part of this one.
        if (messages === this.messages)
          this.keep([...messages, question,
                     { role: "assistant", content: view.recording.text, line: view.summaryText }]);
        announce("Answer: " + view.recording.text);
      } else if (!signal.aborted) {
        // What failed is still there to be sent, and makes room for what is sent next.
        this.failed = [asked, answered];
        if (this.input.value === "") this.type(prompt);
      }
    });
    answered.scrollIntoView({ block: "nearest" });
  }

  retry(prompt) {
    if (this.page.work.busy) return;
    this.type(prompt);
    this.ask();
  }
}

class Compare {
  constructor(page, list) {
    this.page = page;
    this.button = document.getElementById("compare-send");
    this.sides = ["a", "b"].map((name) => {
      const side = document.getElementById("side-" + name);
      const details = make("details", "side-settings");
      details.append(make("summary", "", "Settings"));
      const said = make("p", "said", "as the server decides");
      side.append(details, said);
      const form = new SettingsForm(details, list, (values) => { said.textContent = describe(values); });
      const place = side.appendChild(make("div"));
      return { form, place, said };
    });
    if (list.presets.some((preset) => preset.name === "exact")) {
      this.sides[1].form.preset.value = "exact";
      this.sides[1].form.tellChanged();
    }
    const prompt = document.getElementById("compare-prompt");
    kept.field(prompt);
    if (prompt.value === "") prompt.value = kQuestion;
    document.getElementById("compare-form").addEventListener("submit", (event) => {
      event.preventDefault();
      if (page.work.busy) page.work.stop();
      else this.run();
    });
  }

  retry() {
    if (!this.page.work.busy) this.run();
  }

  async run() {
    const prompt = document.getElementById("compare-prompt").value;
    if (prompt.trim() === "") return;
    const views = this.sides.map((side) => {
      side.place.replaceChildren();
      return new AnswerView(side.place);
    });
    const messages = [{ role: "user", content: prompt }];
    await this.page.work.run(this.button, async (signal) => {
      const body = (i) => this.page.chatBody(messages, this.sides[i].form.values());
      const one = (i) => streamInto(views[i], this.page.server, "v1/chat/completions", body(i), signal,
                                    () => this.retry());
      if (document.getElementById("together").checked) await Promise.all([one(0), one(1)]);
      else for (const i of [0, 1]) await one(i);
      if (!signal.aborted)
        announce(views.map((view, i) => `${"AB"[i]}: ${view.recording.text}. ${view.summaryText || ""}`).join(" "));
    });
  }
}

function describe(values) {
  const said = Object.entries(values).map(([key, value]) => `${key} ${value}`);
  return said.length > 0 ? said.join(", ") : "as the server decides";
}

// The template with what its gaps hold; single tokens may not spell it, since a character can begin in one and end in
// another.
function filled(template, spans) {
  let next = 0;
  return template.replace(/<mask(:(auto:)?\d+|:auto)?>/g, (gap) => (next < spans.length ? spans[next++].text : gap));
}

// Of what the shipped model knows.
const kQuestion = "Fred has 20 puzzles. Ken has 6 more than Fred. Theo has 3 fewer than Ken. "
                  + "How many puzzles do Fred and Theo have together?";
const kExample = "Ken has 20+6=<mask:2> puzzles. Theo has 26-3=<mask:2> puzzles.";

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
      if (page.work.busy) page.work.stop();
      else this.run();
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
      const use = make("button", "quiet small", "Use as the text");
      use.type = "button";
      use.addEventListener("click", () => {
        this.text.value = view.recording.text;
        this.text.focus();
      });
      (view.root.querySelector(".replay") || view.root).append(use);
    });
  }
}
