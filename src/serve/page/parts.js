// Small parts of the page that others are made of.
"use strict";

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

// pressed(): called on each press.
function makeButton(className, text, pressed) {
  const button = make("button", className, text);
  button.type = "button";
  button.addEventListener("click", pressed);
  return button;
}

// words: [value, text] of each choice.
function makeSelect(words) {
  const select = make("select");
  for (const [value, text] of words) {
    const option = make("option", "", text);
    option.value = value;
    select.append(option);
  }
  return select;
}

// A field below its name, with a line of help or none.
function makeField(name, input, help) {
  const label = make("label", "field", name);
  label.append(input);
  if (help !== undefined) label.append(make("span", "help", help));
  return label;
}

function makeInput(name, value) {
  const input = make("input");
  Object.assign(input, { type: "text", value, autocomplete: "off", spellcheck: false });
  if (name) input.setAttribute("aria-label", name);
  return input;
}

function plural(count, word) {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
}

// Said by a screen reader.
function announce(text) {
  document.getElementById("announce").textContent = text;
}

// A line over the page until the next one, with a button that takes its deed back. Closed, it gives the focus back.
function note(text, undo) {
  const place = document.getElementById("note"), before = document.activeElement;
  place.replaceChildren(make("span", "", text));
  const hide = () => {
    place.hidden = true;
    before.focus();
  };
  if (undo)
    place.append(makeButton("quiet small", "Undo", () => {
      hide();
      undo();
    }));
  const close = makeButton("quiet small", "✕", hide);
  close.setAttribute("aria-label", "Close this line");
  place.append(close);
  place.hidden = false;
}

function download(name, text) {
  const link = make("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// A panel that a button opens and closes; Esc inside it closes it.
function listenToPanel(button, panel) {
  const show = (open) => {
    panel.hidden = !open;
    button.setAttribute("aria-expanded", String(open));
    if (!open) button.focus();
  };
  button.setAttribute("aria-controls", panel.id);
  button.setAttribute("aria-expanded", "false");
  button.addEventListener("click", () => show(panel.hidden));
  panel.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    show(false);
  });
}

// Text whose height follows its lines, up to `most` pixels.
function fit(area, most) {
  area.style.height = "auto";
  area.style.height = Math.min(area.scrollHeight + 2, most) + "px";
}
