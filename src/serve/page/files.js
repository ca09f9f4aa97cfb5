// Text files that go along with a message: read here, shown by name, sent inside the message.
"use strict";

const kLargestFile = 256 * 1024, kMostFiles = 16, kLongPaste = 4000;

class Attachments {
  constructor(form, input, changed) {
    this.files = [];  // {name, text}
    this.changed = changed;
    this.list = document.getElementById("attached");
    this.trouble = document.getElementById("attach-trouble");
    const picker = document.getElementById("file-picker");
    document.getElementById("attach").addEventListener("click", () => picker.click());
    picker.addEventListener("change", async () => {
      await this.take([...picker.files]);
      picker.value = "";
      input.focus();
    });
    form.addEventListener("dragover", (event) => {
      if ([...event.dataTransfer.types].includes("Files")) event.preventDefault();
    });
    form.addEventListener("drop", (event) => {
      if (event.dataTransfer.files.length === 0) return;
      event.preventDefault();
      this.take([...event.dataTransfer.files]);
    });
    input.addEventListener("paste", (event) => {
      const files = [...event.clipboardData.files], text = event.clipboardData.getData("text/plain");
      if (files.length === 0 && text.length < kLongPaste) return;
      event.preventDefault();
      this.take(files.length > 0 ? files : [new File([text], "pasted text")]);
    });
  }

  // files: [File]
  async take(files) {
    this.trouble.hidden = true;
    for (const file of files) {
      try {
        if (file.size > kLargestFile)
          throw new Error(`${kilobytes(file.size)}, at most ${kilobytes(kLargestFile)} can go along`);
        if (this.files.length >= kMostFiles) throw new Error(`a message has ${kMostFiles} files at most`);
        this.add(file.name, await textOfFile(file));
      } catch (error) {
        this.trouble.textContent = `${file.name}: ${error.message}`;
        this.trouble.hidden = false;
      }
    }
  }

  add(name, text) {
    this.set([...this.files, { name, text }]);
    announce("Attached " + name);
  }

  set(files) {
    this.files = files;
    this.list.replaceChildren(...files.map((file) => {
      const item = fileChip(file);
      const remove = makeButton("chip-remove", "✕", () => {
        this.set(this.files.filter((other) => other !== file));
        document.getElementById("attach").focus();
      });
      remove.setAttribute("aria-label", "Remove " + file.name);
      item.append(remove);
      return item;
    }));
    this.changed();
  }
}

// A file that is no text is refused, since a model would read its bytes as noise.
async function textOfFile(file) {
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    throw new Error("not a text file in UTF-8");
  }
  if (text.includes("\0")) throw new Error("not a text file: it holds a zero byte");
  return text;
}

function fileChip(file) {
  const chip = make("li", "chip");
  chip.title = file.name;
  chip.append(make("span", "chip-name", file.name), make("span", "chip-size", kilobytes(new Blob([file.text]).size)));
  return chip;
}

function kilobytes(bytes) {
  return bytes < 1024 ? plural(bytes, "byte") : `${(bytes / 1024).toFixed(bytes < 10240 ? 1 : 0)} KB`;
}

// A message with its files as the model reads it. The fence is longer than any in the file.
function withFiles(question, files) {
  return [question, ...files.map(({ name, text }) => {
    const longest = (text.match(/`+/g) || []).reduce((most, run) => Math.max(most, run.length), 2);
    const fence = "`".repeat(longest + 1);
    return `File ${name.replace(/\s+/g, " ")}:\n${fence}\n${text.replace(/\n$/, "")}\n${fence}`;
  })].filter(Boolean).join("\n\n");
}
