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

// Streams one answer into a view; true when it came to its end.
async function streamInto(view, server, path, body, signal) {
  try {
    await server.stream(path, { ...body, stream: true, diffusing: "frames" }, signal, (chunk) => view.add(chunk));
    view.done();
    return true;
  } catch (error) {
    if (signal.aborted) view.done("stopped");
    else view.fail(error);
    return false;
  }
}

function announce(text) {
  document.getElementById("announce").textContent = text;
}

class Chat {
  constructor(page) {
    this.page = page;
    this.messages = [];
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
  }

  fit() {
    this.input.style.height = "auto";
    this.input.style.height = Math.min(this.input.scrollHeight + 2, 240) + "px";
  }

  clear() {
    this.page.work.stop();
    this.messages = [];
    this.list.replaceChildren();
    document.getElementById("welcome").hidden = false;
    this.input.focus();
  }

  async ask() {
    const prompt = this.input.value;
    if (prompt.trim() === "") return;
    document.getElementById("welcome").hidden = true;
    this.input.value = "";
    this.fit();
    const asked = make("article", "message user");
    asked.append(make("h2", "away", "You"), make("p", "", prompt));
    const answered = make("article", "message");
    answered.append(make("h2", "away", "Answer"));
    this.list.append(asked, answered);
    const view = new AnswerView(answered);
    answered.scrollIntoView({ block: "nearest" });
    const conversation = [...this.messages, { role: "user", content: prompt }];
    const messages = this.messages;
    await this.page.work.run(this.send, async (signal) => {
      if (await streamInto(view, this.page.server, "/v1/chat/completions", this.page.chatBody(conversation), signal)) {
        // Another conversation may have begun meanwhile; an answer that was stopped is not part of this one.
        if (messages === this.messages)
          this.messages = [...conversation, { role: "assistant", content: view.recording.text }];
        announce("Answer: " + view.recording.text);
      }
    });
    answered.scrollIntoView({ block: "nearest" });
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
    document.getElementById("compare-form").addEventListener("submit", (event) => {
      event.preventDefault();
      if (page.work.busy) page.work.stop();
      else this.run();
    });
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
      const one = (i) => streamInto(views[i], this.page.server, "/v1/chat/completions",
                                    this.page.chatBody(messages, this.sides[i].form.values()), signal);
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
  return template.replace(/<mask(:\d+)?>/g, (gap) => (next < spans.length ? spans[next++].text : gap));
}

class Fill {
  constructor(page) {
    this.page = page;
    this.text = document.getElementById("fill-text");
    this.button = document.getElementById("fill-send");
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
    this.text.focus();
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
      if (!(await streamInto(view, this.page.server, "/infill", body, signal))) return;
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
