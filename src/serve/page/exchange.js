// One exchange of a conversation on the page: the question with its buttons, and its answers.
"use strict";

class ExchangeView {
  // chat: {edit(exchange, text), remove(exchange), again(exchange), results(exchange, texts by call id)}
  constructor(chat, exchange) {
    this.chat = chat;
    this.exchange = exchange;
    this.root = make("div", "exchange");
    this.root.tabIndex = -1;
    this.asked = make("article", "message user");
    this.answers = make("div", "answers");
    this.root.append(this.asked, this.answers);
    this.paintQuestion();
    this.paintReplies();
  }

  paintQuestion() {
    const { question, files, form } = this.exchange;
    this.asked.classList.remove("editing");
    this.asked.replaceChildren(make("h3", "away", "You"));
    if (question !== "") this.asked.append(make("p", "", question));
    if (files.length > 0) {
      const chips = make("ul", "chips");
      chips.setAttribute("aria-label", "Attached files");
      chips.append(...files.map(fileChip));
      this.asked.append(chips);
    }
    if (form) this.asked.append(make("p", "as-form", formSaid(form)));
    const actions = make("div", "actions");
    actions.append(this.edit = makeButton("quiet small", "Edit", () => this.paintEditor()),
                   makeButton("quiet small", "Delete", () => this.chat.remove(this.exchange)));
    this.asked.append(actions);
  }

  paintEditor() {
    if (this.chat.busy) return;
    const area = make("textarea");
    area.value = this.exchange.question;
    area.setAttribute("aria-label", "The message, edited");
    const later = this.chat.askedAnewWith(this.exchange);
    const done = () => {
      this.paintQuestion();
      this.edit.focus();
    };
    const ask = () => {
      const text = area.value;
      if (text.trim() === "" && this.exchange.files.length === 0) return;
      done();
      this.chat.edit(this.exchange, text);
    };
    area.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        event.stopPropagation();
        done();
      }
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        ask();
      }
    });
    area.addEventListener("input", () => fit(area, 320));
    const actions = make("div", "actions");
    actions.append(makeButton("quiet small set", "Ask again", ask), makeButton("quiet small", "Cancel", done));
    const parts = [make("h3", "away", "You"), area];
    if (later > 0)
      parts.push(make("p", "as-form", later > 1 ? `The ${later} questions after it are asked again, too.`
                                                : "The question after it is asked again, too."));
    this.asked.replaceChildren(...parts, actions);
    this.asked.classList.add("editing");
    fit(area, 320);
    area.focus();
  }

  // Answers from before, as text. `kept`: views of answers that were seen to form, by reply.
  paintReplies(kept = new Map()) {
    this.views = kept;
    const { replies } = this.exchange;
    this.answers.replaceChildren();
    replies.forEach((reply, i) => {
      if (reply.role !== "assistant") return;
      const view = kept.get(reply), article = this.newAnswer();
      if (view) {
        article.append(view.root);
      } else {
        const text = reply.stopped || this.exchange.form ? null : formatted(reply.content);
        const box = make("div", "answer");
        box.append(text ? make("div", "reading") : make("div", "cells plain", reply.content));
        if (text) box.firstChild.append(text);
        const row = make("div", "replay");
        if (reply.content) row.append(copyButton("Copy the answer", () => reply.content));
        box.append(make("p", "line", reply.line), row);
        article.append(box);
      }
      if (reply.calls) article.append(this.cardsOf(reply, i));
      if (reply.stale)
        article.append(make("p", "as-form", "From before the message above was changed."));
      if (replies.slice(i + 1).every((other) => other.role !== "assistant")) this.addAgain(article);
    });
  }

  // The button that was pressed may be gone with what it belonged to.
  keepFocus() {
    if (document.activeElement === document.body) this.root.focus({ preventScroll: true });
  }

  newAnswer() {
    const article = make("article", "message");
    article.append(make("h3", "away", "Answer"));
    this.answers.append(article);
    return article;
  }

  addAgain(article) {
    const row = article.querySelector(".replay") ||
                (article.querySelector(".answer") || article).appendChild(make("div", "replay"));
    if (row.querySelector(".again")) return;
    const again = makeButton("quiet small again", "Regenerate", () => this.chat.again(this.exchange));
    again.title = "Ask the same again. With temperature 0 the answer is the same one.";
    row.append(again);
  }

  cardsOf(reply, at) {
    const after = this.exchange.replies.slice(at + 1);
    const results = new Map(after.filter((one) => one.role === "tool").map((one) => [one.id, one.content]));
    return callCards(reply.calls, after.length > 0 ? results : null,
                     (texts) => this.chat.results(this.exchange, texts));
  }
}
