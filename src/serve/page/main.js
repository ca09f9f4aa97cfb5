// Puts the page together: tabs, the settings, the keyboard.
"use strict";

const kKeyStore = "llada-api-key";

class Page {
  constructor() {
    this.keyInput = document.getElementById("api-key");
    this.keyInput.value = sessionStorage.getItem(kKeyStore) || "";
    this.keyInput.addEventListener("change", () => {
      sessionStorage.setItem(kKeyStore, this.keyInput.value);
      this.open();
    });
    this.server = new Server(() => this.keyInput.value.trim());
    this.work = new Work();
    this.chat = new Chat(this);
    this.fill = new Fill(this);
    this.settings = { values: () => ({}) };  // until the list is there
  }

  chatBody(messages, llada) {
    const system = document.getElementById("system").value.trim();
    return {
      model: this.model,
      messages: system ? [{ role: "system", content: system }, ...messages] : messages,
      stream_options: { include_usage: true },
      llada: llada || this.settings.values(),
    };
  }

  // What needs the server: the model's name, and the list of options, once.
  async open() {
    const trouble = document.getElementById("trouble");
    try {
      const models = await this.server.get("/v1/models");
      this.model = models.data[0].id;
      document.getElementById("model").textContent = this.model;
      document.title = "llada: " + this.model;
      if (!this.compare) {
        const list = await this.server.get("/v1/llada/options");
        this.settings = new SettingsForm(document.getElementById("options"), list, (values) => {
          document.getElementById("changed").textContent = Object.keys(values).length || "";
        });
        this.compare = new Compare(this, list);
      }
      trouble.hidden = true;
    } catch (error) {
      trouble.textContent = error.status === 401 ? "This server asks for an API key: see the settings." : error.message;
      trouble.hidden = false;
    }
  }
}

function selectTab(tab) {
  for (const other of document.querySelectorAll("[role=tab]")) {
    const selected = other === tab;
    other.setAttribute("aria-selected", String(selected));
    other.tabIndex = selected ? 0 : -1;
    document.getElementById(other.getAttribute("aria-controls")).hidden = !selected;
  }
}

function listenToTabs() {
  const tabs = [...document.querySelectorAll("[role=tab]")];
  for (const tab of tabs) {
    tab.addEventListener("click", () => selectTab(tab));
    tab.addEventListener("keydown", (event) => {
      const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
      if (by === 0) return;
      const next = tabs[(tabs.indexOf(tab) + by + tabs.length) % tabs.length];
      selectTab(next);
      next.focus();
    });
  }
}

function listenToKeys(page) {
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !document.getElementById("settings").open) page.work.stop();
    // An input method's own Enter ends a word, not the message.
    const sends = event.target.id === "prompt" || event.target.id === "compare-prompt";
    if (sends && event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      if (!page.work.busy) event.target.form.requestSubmit();
    }
  });
}

const page = new Page();
listenToTabs();
listenToKeys(page);
document.getElementById("open-settings").addEventListener("click", () => {
  document.getElementById("settings").showModal();
});
page.open();
document.getElementById("prompt").focus();
