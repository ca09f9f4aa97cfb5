// Puts the page together: tabs, the settings, the keyboard.
"use strict";

class Page {
  constructor() {
    this.keyInput = document.getElementById("api-key");
    this.keyInput.value = kept.key();
    this.keyInput.addEventListener("change", () => {
      kept.setKey(this.keyInput.value);
      this.open();
    });
    this.server = new Server(() => this.keyInput.value.trim(), () => this.askForKey());
    this.work = new Work();
    this.settings = { values: () => ({}) };  // until the list is there
    const system = document.getElementById("system");
    kept.field(system);
    this.chat = new Chat(this);
    this.fill = new Fill(this);
    this.decide = new Decide(this);
    system.addEventListener("input", () => this.chat.meter.later());
  }

  withSystem(messages) {
    const system = document.getElementById("system").value.trim();
    return system ? [{ role: "system", content: system }, ...messages] : messages;
  }

  chatBody(messages, llada) {
    return {
      model: this.model,
      messages: this.withSystem(messages),
      stream_options: { include_usage: true },
      llada: llada || this.settings.values(),
    };
  }

  // What needs the server: the model's name and what it can do, and the list of options, once.
  async open() {
    try {
      const models = await this.server.get("v1/models");
      const list = await this.server.get("v1/llada/options");
      const props = await this.server.get("props");
      this.model = models.data[0].id;
      this.single = props.single_turn === true;
      this.context = props.n_ctx;
      document.getElementById("single").hidden = !this.single;
      document.getElementById("model").textContent = this.model;
      document.title = "llada: " + this.model;
      if (!this.compare) {
        this.settings = new SettingsForm(document.getElementById("options"), list, (values) => {
          document.getElementById("changed").textContent = Object.keys(values).length || "";
          kept.set("settings", values);
        }, kept.get("settings", {}), kFormKeys);
        this.compare = new Compare(this, list);
      }
      document.getElementById("key-asked").hidden = true;
      this.tell("");
      this.chat.meter.later();
    } catch (error) {
      if (error.status === 401) return;  // it is said where the key is asked for
      this.tell(error.status === 503 ? "The model is being loaded. You can write meanwhile." : error.message,
                error.status === 503);
      this.wait();
    }
  }

  // Until the server is there and has its model.
  wait() {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(async () => {
      try {
        await this.server.get("ready");
      } catch {
        this.wait();
        return;
      }
      this.open();
    }, 1000);
  }

  tell(text, harmless) {
    const trouble = document.getElementById("trouble");
    trouble.textContent = text;
    trouble.hidden = text === "";
    trouble.className = harmless ? "notice" : "error";
  }

  askForKey() {
    const given = this.keyInput.value.trim() !== "";
    this.tell(given ? "This server does not know that API key." : "This server asks for an API key.");
    const settings = document.getElementById("settings");
    if (!settings.open) settings.showModal();
    document.getElementById("key-asked").hidden = false;
    this.keyInput.focus();
    this.keyInput.select();
  }
}

function selectTab(tab) {
  for (const other of document.querySelectorAll("[role=tab]")) {
    const selected = other === tab;
    other.setAttribute("aria-selected", String(selected));
    other.tabIndex = selected ? 0 : -1;
    document.getElementById(other.getAttribute("aria-controls")).hidden = !selected;
  }
  document.querySelector(".legend").hidden = tab.id === "tab-decide";  // it shows no tokens
}

function listenToTabs() {
  const tabs = [...document.querySelectorAll("[role=tab]")];
  for (const tab of tabs) {
    tab.addEventListener("click", () => selectTab(tab));
    tab.addEventListener("keydown", (event) => {
      const at = tabs.indexOf(tab), count = tabs.length;
      const to = { ArrowRight: (at + 1) % count, ArrowLeft: (at + count - 1) % count, Home: 0, End: count - 1 };
      if (!(event.key in to)) return;
      event.preventDefault();
      const next = tabs[to[event.key]];
      selectTab(next);
      next.focus();
    });
  }
}

// Alt and a letter: they are told by their place on the keyboard, since Alt writes other characters on some.
const kShortcuts = {
  KeyN: (page) => {
    selectTab(document.getElementById("tab-chat"));
    page.chat.begin();
  },
  KeyK: (page) => {
    selectTab(document.getElementById("tab-chat"));
    const search = document.getElementById("search");
    if (getComputedStyle(search).visibility === "hidden") page.chat.talks.show(true);
    search.focus();
  },
  KeyO: () => document.getElementById("settings").showModal(),
  Slash: () => document.getElementById("help").showModal(),
};

function listenToKeys(page) {
  document.addEventListener("keydown", (event) => {
    const dialog = document.querySelector("dialog[open]");
    if (event.key === "Escape" && !dialog) page.work.stop();
    if (event.altKey && !event.ctrlKey && !event.metaKey && !dialog && event.code in kShortcuts) {
      event.preventDefault();
      kShortcuts[event.code](page);
    }
    const { target } = event;
    // An input method's own Enter ends a word, not the message.
    const sends = target.id === "prompt" || target.id === "compare-prompt";
    if (sends && event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      if (!page.work.busy) target.form.requestSubmit();
    }
    if (target.id === "prompt" && event.key === "ArrowUp" && target.value === "" && !page.work.busy) {
      const last = page.chat.conversation.exchanges.at(-1);
      if (!last) return;
      event.preventDefault();
      page.chat.viewOf(last).paintEditor();
    }
  });
}

const page = new Page();
listenToTabs();
listenToKeys(page);
for (const name of ["settings", "help"])
  document.getElementById("open-" + name).addEventListener("click", () => document.getElementById(name).showModal());
page.open();
document.getElementById("prompt").focus();
