// The list of conversations beside the present one: found, chosen, named, exported, imported, deleted.
"use strict";

const kLargestImport = 32 * 1024 * 1024;

class ConversationList {
  constructor(chat) {
    this.chat = chat;
    this.list = document.getElementById("talk-list");
    this.search = document.getElementById("search");
    this.found = document.getElementById("found");
    this.title = document.getElementById("title");
    this.row = document.getElementById("title-row");
    this.search.addEventListener("input", () => {
      this.paint();
      announce(this.found.textContent);
    });
    const on = (id, pressed) => document.getElementById(id).addEventListener("click", pressed);
    on("new-chat", () => {
      this.show(false);
      chat.begin();
    });
    on("open-list", () => this.show(true));
    on("close-list", () => this.show(false));
    on("list-backdrop", () => this.show(false));
    matchMedia("(min-width: 900px)").addEventListener("change", () => this.show(false));
    on("rename", () => this.rename());
    on("export-one", () => this.export([chat.conversation], fileNameOf(chat.conversation.title)));
    on("export-all", () => this.export(chat.conversations.list(), "llada conversations.json"));
    on("delete-one", () => this.remove());
    const picker = document.getElementById("import-picker");
    on("import", () => picker.click());
    picker.addEventListener("change", async () => {
      if (picker.files[0]) await this.import(picker.files[0]);
      picker.value = "";
    });
    document.getElementById("conversations").addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      if (this.search.value !== "") {
        this.search.value = "";
        this.paint();
      } else {
        this.show(false);
      }
    });
  }

  // Beside the conversation where there is room; otherwise it slides over it.
  show(open) {
    if (open) selectTab(document.getElementById("tab-chat"));
    const was = document.body.classList.contains("listing");
    document.body.classList.toggle("listing", open);
    document.getElementById("open-list").setAttribute("aria-expanded", String(open));
    for (const covered of document.querySelectorAll(".bar, .talk, .legend")) covered.inert = open;
    if (open) this.search.focus();
    else if (was) document.getElementById("open-list").focus();
  }

  paint() {
    const { conversation, conversations } = this.chat;
    const words = this.search.value.trim();
    const found = conversations.search(words);
    this.list.replaceChildren(...found.map(({ conversation: one, hit }) => this.itemOf(one, hit)));
    this.found.textContent = words !== "" ? (found.length > 0 ? `${found.length} found` : "Nothing found")
        : found.length === 0 ? "Conversations are kept in this browser." : "";
    this.row.hidden = conversation.exchanges.length === 0;
    if (!this.row.querySelector("input")) this.title.textContent = conversation.title;
    document.getElementById("export-all").disabled = conversations.all.size === 0;
  }

  itemOf(conversation, hit) {
    const item = make("li"), button = makeButton("talk-name", "", () => {
      this.show(false);
      // The present one may have an answer that forms.
      if (conversation !== this.chat.conversation) this.chat.show(conversation);
      this.chat.input.focus();
    });
    button.append(make("span", "talk-title", conversation.title));
    if (hit) button.append(make("span", "talk-hit", hit));
    if (conversation === this.chat.conversation) button.setAttribute("aria-current", "true");
    item.append(button);
    return item;
  }

  rename() {
    const { conversation } = this.chat;
    const input = makeInput("Title of the conversation", conversation.title);
    input.maxLength = 200;
    let over = false;
    const end = (keep, by) => {
      if (over) return;
      over = true;
      const title = input.value.trim();
      input.replaceWith(this.title);
      if (keep && title !== conversation.title) {
        Object.assign(conversation, title === "" ? { named: false } : { named: true, title });
        this.chat.save(conversation);
      }
      this.paint();
      if (by === "key") document.getElementById("rename").focus();
    };
    input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== "Escape") return;
      event.preventDefault();
      event.stopPropagation();
      end(event.key === "Enter", "key");
    });
    input.addEventListener("blur", () => {
      // A press elsewhere has to find its button still there when it is over.
      if (document.querySelector("button:active"))
        addEventListener("pointerup", () => setTimeout(() => end(true)), { once: true });
      else end(true);
    });
    this.title.replaceWith(input);
    input.focus();
    input.select();
  }

  export(conversations, name) {
    download(name, this.chat.conversations.exported(conversations));
    note("Exported " + plural(conversations.length, "conversation") + ".");
  }

  async import(file) {
    try {
      if (file.size > kLargestImport)
        throw new Error(`found ${kilobytes(file.size)}, needed ${kilobytes(kLargestImport)} at most`);
      const { added, known } = this.chat.conversations.imported(await textOfFile(file));
      this.show(false);
      if (added.length > 0) this.chat.show(added[0]);
      note(`Imported ${plural(added.length, "conversation")}` + (known > 0 ? `; ${known} were here already.` : "."));
    } catch (error) {
      this.show(false);
      note(`${file.name}: ${error.message}`);
    }
  }

  remove() {
    const { conversation } = this.chat;
    if (this.chat.busy) return;
    this.chat.conversations.remove(conversation);
    this.chat.begin();
    note("Deleted the conversation.", () => {
      this.chat.conversations.put(conversation);
      this.chat.show(conversation);
    });
  }
}

function fileNameOf(title) {
  return (title.replace(/[^\p{L}\p{N} _-]+/gu, "").trim().slice(0, 60) || "conversation") + ".json";
}
