// How full the context would be if the message were sent now, by the server's own count.
"use strict";

class Meter {
  // messages(): {messages, tools} of a request with the typed message.
  constructor(page, messages) {
    this.page = page;
    this.messages = messages;
    this.root = document.getElementById("meter");
    this.bar = document.getElementById("meter-bar");
    this.text = document.getElementById("meter-text");
  }

  // Soon, once typing pauses.
  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.count(), 300);
  }

  async count() {
    if (!this.page.context) return;
    const asked = this.asked = {};
    let used = 0;
    try {
      const body = this.messages();
      if (body.messages.length > 0) used = (await this.page.server.post("apply-template", body)).tokens.length;
    } catch {
      this.root.hidden = true;  // the error is shown when it is sent
      return;
    }
    if (asked === this.asked) this.show(used, this.page.context);
  }

  show(used, context) {
    const left = context - used;
    this.root.hidden = false;
    this.root.classList.toggle("full", left < Math.min(64, context / 8));
    this.bar.style.setProperty("inline-size", `${Math.min(100, (100 * used) / context)}%`);
    this.text.textContent = left > 0 ? `${used.toLocaleString("en")} of ${context.toLocaleString("en")} tokens`
                                     : left === 0 ? "the context is full" : plural(-left, "token") + " too many";
    this.root.setAttribute("aria-valuemax", context);
    this.root.setAttribute("aria-valuenow", Math.min(used, context));
    this.root.setAttribute("aria-valuetext", left > 0
        ? `${used} of ${context} tokens of the context; ${left} are left for the answer`
        : `${-left} tokens more than the context of ${context} has`);
    this.root.title = left > 0 ? `The conversation and your message take ${used} tokens, the answer may have ${left}.`
                               : "Too long: shorten the message, or begin a new conversation.";
  }
}
