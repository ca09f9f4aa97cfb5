// The conversation on the page: asked, edited, asked again, deleted; one answer at a time.
"use strict";

class Chat {
  constructor(page) {
    this.page = page;
    this.list = document.getElementById("messages");
    this.input = document.getElementById("prompt");
    this.send = document.getElementById("send");
    this.views = new WeakMap();  // of exchanges; those seen to form keep their steps while the page is open
    this.meter = new Meter(page, () => this.wouldSend());
    const changed = () => this.meter.later();
    this.form = new AnswerForm(changed);
    this.tools = new ToolsPanel(changed);
    const composer = document.getElementById("composer");
    this.attached = new Attachments(composer, this.input, changed);
    composer.addEventListener("submit", (event) => {
      event.preventDefault();
      page.work.pressed(this.send, () => this.ask());
    });
    this.input.addEventListener("input", () => {
      fit(this.input, 240);
      changed();
    });
    for (const sample of document.querySelectorAll(".sample"))
      sample.addEventListener("click", () => {
        if (page.work.busy) return;
        this.type(sample.textContent.replace(/\s+/g, " ").trim());
        this.ask();
      });
    kept.field(this.input, () => fit(this.input, 240));
    this.conversations = new Conversations();
    this.talks = new ConversationList(this);
    addEventListener("storage", ({ key }) => this.changedElsewhere(key));
    const last = this.conversations.all.get(kept.get("current", ""));
    this.show(last || this.conversations.create());
  }

  get busy() {
    return this.page.work.saysBusy();
  }

  type(text) {
    this.input.value = text;
    kept.set("prompt", text);
    fit(this.input, 240);
    this.meter.later();
  }

  // Another tab of this page has kept or deleted a conversation.
  changedElsewhere(key) {
    const begin = kept.name("talk ");
    if (key === null || !key.startsWith(begin)) return;
    const id = key.slice(begin.length), here = id === this.conversation.id;
    if (here && this.page.work.busy) return;  // it is kept again when the answer is there
    this.conversations.read(id);
    const changed = this.conversations.all.get(id);
    if (here && changed) this.show(changed);
    else this.talks.paint();
  }

  begin() {
    this.show(this.conversations.create());
    this.input.focus();
  }

  show(conversation) {
    if (this.page.work.busy && this.page.work.button === this.send) {
      this.page.work.stop();
      note("The answer that was forming is stopped.");
    }
    this.failed = undefined;
    this.conversation = conversation;
    kept.set("current", conversation.id);
    this.list.replaceChildren(...conversation.exchanges.map((exchange) => this.viewOf(exchange).root));
    this.list.scrollTop = this.list.scrollHeight;
    this.tellConversation();
  }

  viewOf(exchange) {
    if (!this.views.has(exchange)) this.views.set(exchange, new ExchangeView(this, exchange));
    return this.views.get(exchange);
  }

  // Shows the parts of the page that depend on the conversation.
  tellConversation() {
    const empty = this.conversation.exchanges.length === 0 && !this.failed;
    document.getElementById("welcome").hidden = !empty;
    this.talks.paint();
    this.meter.later();
  }

  save(conversation) {
    conversation.changed = Date.now();
    if (!this.conversations.put(conversation))
      note("The browser is full or keeps nothing: export this conversation, or delete others.");
    this.tellConversation();
  }

  // All messages of a request that asks `exchange`, in the conversation that holds it.
  messages(conversation, exchange) {
    const at = conversation.exchanges.indexOf(exchange);
    const before = this.page.single ? []
        : conversation.exchanges.slice(0, at < 0 ? undefined : at).filter(complete);
    return [...before, exchange].flatMap(messagesOf);
  }

  // The meter counts this: the conversation with the typed message.
  wouldSend() {
    const question = this.input.value, files = this.attached.files;
    const draft = { question, files, replies: [] };
    const typed = question.trim() !== "" || files.length > 0;
    const messages = typed ? this.messages(this.conversation, draft)
        : this.page.single ? [] : this.conversation.exchanges.filter(complete).flatMap(messagesOf);
    const { tools } = this.tools.values();
    return { messages: this.page.withSystem(messages), ...(tools && { tools }) };
  }

  async ask(question = this.input.value, files = this.attached.files) {
    if (question.trim() === "" && files.length === 0) return;
    let form;
    try {
      form = this.form.values();
    } catch (error) {
      note(error.message);
      return;
    }
    if (this.failed) this.failed.root.remove();
    this.failed = undefined;
    // Asked once more after a failure, it leaves alone what was typed since.
    if (this.input.value === question && this.attached.files === files) {
      this.type("");
      this.attached.set([]);
    }
    const conversation = this.conversation, exchange = { question, files, form, replies: [] };
    const view = this.viewOf(exchange);
    this.list.append(view.root);
    view.keepFocus();
    conversation.exchanges.push(exchange);
    this.save(conversation);  // already now, so that a reload does not lose the question
    view.root.scrollIntoView({ block: "nearest" });
    const took = await this.answer(conversation, exchange, () => {
      if (!this.busy) this.ask(question, files);
    });
    const merged = this.conversations.merge(conversation, exchange);
    if (took === "failed") {
      conversation.exchanges.splice(conversation.exchanges.indexOf(exchange), 1);
      // A failed question is back in the field, and its place goes to the next one.
      this.failed = view;
      if (this.input.value === "" && this.attached.files.length === 0) {
        this.type(question);
        this.attached.set(files);
      }
    }
    this.save(conversation);
    if (merged && took !== "failed" && conversation === this.conversation) this.show(conversation);
  }

  // Streams one answer to the end of an exchange: "done", "stopped" or "failed".
  async answer(conversation, exchange, retry) {
    const view = this.viewOf(exchange), article = view.newAnswer(), answer = new AnswerView(article);
    answer.plain = exchange.form !== null;
    article.scrollIntoView({ block: "nearest" });
    let took = "failed";
    await this.page.work.run(this.send, async (signal) => {
      const llada = { ...this.page.settings.values(), ...exchange.form };
      let tools;
      try {
        tools = this.tools.values();
      } catch (error) {
        answer.fail(error, retry);
        return;
      }
      const body = { ...this.page.chatBody(this.messages(conversation, exchange), llada), ...tools };
      const done = await streamInto(answer, this.page.server, "v1/chat/completions", body, signal, retry);
      if (!done && !signal.aborted) return;
      took = done ? "done" : "stopped";
      const { text, calls } = answer.recording;
      const reply = { role: "assistant", content: text, line: answer.summaryText };
      if (!done) reply.stopped = true;
      else if (calls.length > 0) reply.calls = calls;
      exchange.replies = [...exchange.replies, reply];
      view.paintReplies(new Map([...view.views, [reply, answer]]));
      announce(done && calls.length > 0 ? "The model calls " + calls.map((call) => call.name).join(", ")
                                        : "Answer: " + text);
    });
    view.root.scrollIntoView({ block: "end" });
    return took;
  }

  // Answers an exchange of the conversation anew behind the first `count` of its replies. Until that is done its
  // former replies stay.
  async renew(conversation, exchange, count) {
    const view = this.viewOf(exchange), former = exchange.replies;
    exchange.replies = former.slice(0, count);
    view.paintReplies(view.views);
    view.keepFocus();
    const took = await this.answer(conversation, exchange, () => {
      if (!this.busy) this.renew(conversation, exchange, count);
    });
    if (took !== "done" && former.length > count) {
      const failed = took === "failed" ? view.answers.lastElementChild : null;
      exchange.replies = former;
      view.paintReplies(view.views);
      if (failed) view.answers.append(failed);
      else note("Stopped: the former answer stays.");
    }
    this.save(conversation);
    return took;
  }

  // Those behind an exchange whose answers rest on it.
  after(exchange) {
    const { exchanges } = this.conversation;
    return this.page.single ? [] : exchanges.slice(exchanges.indexOf(exchange) + 1);
  }

  askedAnewWith(exchange) {
    return this.conversation.exchanges.includes(exchange) ? this.after(exchange).length : 0;
  }

  setStale(exchanges) {
    for (const exchange of exchanges) {
      exchange.replies = exchange.replies.map((reply) => {
        if (reply.role !== "assistant") return reply;
        const stale = { ...reply, stale: true }, views = this.viewOf(exchange).views;
        if (views.has(reply)) views.set(stale, views.get(reply));
        return stale;
      });
      this.viewOf(exchange).paintReplies(this.viewOf(exchange).views);
    }
  }

  async edit(exchange, question) {
    if (this.busy) return;
    const conversation = this.conversation;
    if (!conversation.exchanges.includes(exchange)) {  // it failed
      if (this.input.value === exchange.question) this.type(question);  // it was put back there
      this.ask(question, exchange.files);
      return;
    }
    const later = this.after(exchange);
    exchange.question = question;
    exchange.replies = [];
    this.viewOf(exchange).paintQuestion();
    this.setStale(later);
    for (const one of [exchange, ...later])
      if ((await this.renew(conversation, one, 0)) !== "done" || !complete(one)) break;
  }

  async again(exchange) {
    if (this.busy) return;
    const { conversation } = this, later = this.after(exchange);
    const count = exchange.replies.findLastIndex((reply) => reply.role === "tool") + 1;
    if ((await this.renew(conversation, exchange, count)) !== "done") return;
    this.setStale(later);
    this.save(conversation);
  }

  async results(exchange, texts) {
    if (this.busy) return;
    const { calls } = exchange.replies.at(-1);
    exchange.replies = [...exchange.replies, ...calls.map(
        ({ id, name }) => ({ role: "tool", id, name, content: texts.get(id) }))];
    await this.renew(this.conversation, exchange, exchange.replies.length);
  }

  remove(exchange) {
    if (this.busy) return;
    const conversation = this.conversation, view = this.viewOf(exchange), at = conversation.exchanges.indexOf(exchange);
    if (at < 0) {  // it failed
      this.failed = undefined;
      view.root.remove();
      this.tellConversation();
      return;
    }
    conversation.exchanges.splice(at, 1);
    view.root.remove();
    this.save(conversation);
    this.input.focus();
    note("Deleted the question and its answer.", () => {
      conversation.exchanges.splice(at, 0, exchange);
      this.save(conversation);
      this.show(conversation);
    });
  }
}

// Whether an exchange has its last answer, so that others may follow it.
function complete(exchange) {
  const last = exchange.replies.at(-1);
  return last !== undefined && last.role === "assistant" && !last.stopped && !last.calls;
}

function messagesOf({ question, files, replies }) {
  const messages = [{ role: "user", content: withFiles(question, files) }];
  for (const reply of replies) {
    if (reply.role === "tool") {
      messages.push({ role: "tool", tool_call_id: reply.id, content: reply.content });
    } else if (!reply.stopped) {
      const calls = reply.calls && reply.calls.map(
          ({ id, name, arguments: given }) => ({ id, type: "function", function: { name, arguments: given } }));
      messages.push({ role: "assistant", content: reply.content, ...(calls && { tool_calls: calls }) });
    }
  }
  return messages;
}
