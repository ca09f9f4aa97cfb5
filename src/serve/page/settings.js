// The form of the decoding options, made from the list that the server sends: a new option needs no change here.
"use strict";

// What most people look for stands first, in words of its own.
const kFirst = {
  gen_length: ["Longest answer", "Tokens of an answer at most. Empty: as long as it needs."],
  temperature: ["Temperature", "0 takes the best token each time; 0.7 and more make answers vary."],
};

class SettingsForm {
  // changed(values): called with values() whenever they are others. before: values to begin with.
  // list: {options: [{key, unit, help, group, default, choices}], presets: [{name, options}]}
  constructor(parent, list, changed, before = {}) {
    this.inputs = new Map();  // by key
    this.list = list;
    this.changed = changed || (() => {});
    this.root = make("div", "options");
    this.preset = this.choice(["", ...list.presets.map((preset) => preset.name)], "the server's own");
    const field = this.field("Preset", this.preset, "");
    this.presetHelp = field.querySelector(".help");
    this.root.append(field);
    for (const key of Object.keys(kFirst)) {
      const option = list.options.find((one) => one.key === key);
      if (option) this.root.append(this.fieldOf(option));
    }
    const others = list.options.filter((option) => !(option.key in kFirst));
    for (const [title, options] of groupsOf(others)) this.root.append(this.group(title, options));
    const reset = make("button", "quiet", "Reset all");
    reset.type = "button";
    reset.addEventListener("click", () => this.reset());
    this.root.append(reset);
    this.root.addEventListener("input", () => this.tellChanged());
    parent.append(this.root);
    this.preset.value = this.known(this.preset, before.preset);
    for (const [key, input] of this.inputs) input.value = this.known(input, before[key]);
    this.tellChanged();
  }

  group(title, options) {
    const details = make("details");
    const summary = make("summary", "", title);
    summary.append(make("span", "count"));
    details.append(summary);
    for (const option of options) details.append(this.fieldOf(option));
    return details;
  }

  fieldOf(option) {
    const input = this.inputOf(option);
    this.inputs.set(option.key, input);
    const [name, help] = kFirst[option.key] || [option.key.replaceAll("_", " "), helpOf(option)];
    const field = this.field(name, input, help);
    field.dataset.key = option.key;
    return field;
  }

  // A value of before, where the field still takes it.
  known(input, value) {
    const text = value === undefined ? "" : String(value);
    return !input.options || [...input.options].some((option) => option.value === text) ? text : "";
  }

  // Empty means: not said, so that the preset decides. A switch therefore has three states as well.
  inputOf(option) {
    const words = option.choices && option.choices.length > 0 ? option.choices
        : option.unit === "" || typeof option.default === "boolean" ? ["true", "false"] : null;
    if (words) return this.choice(["", ...words], "default");
    const input = make("input");
    input.type = "text";
    input.inputMode = "decimal";
    input.spellcheck = false;
    input.placeholder = option.default === undefined || option.default === null ? "" : String(option.default);
    return input;
  }

  choice(words, none) {
    const select = make("select");
    for (const word of words) {
      const option = make("option", "", word || none);
      option.value = word;
      select.append(option);
    }
    return select;
  }

  field(name, input, help) {
    const label = make("label", "field", name);
    label.append(input, make("span", "help", help));
    return label;
  }

  // What the user said, as the request's "llada" member; numbers and truth values as such.
  values() {
    const said = {};
    if (this.preset.value) said.preset = this.preset.value;
    for (const [key, input] of this.inputs)
      if (input.value.trim() !== "") said[key] = valueOf(input.value.trim());
    return said;
  }

  reset() {
    this.preset.value = "";
    for (const input of this.inputs.values()) input.value = "";
    this.tellChanged();
  }

  tellChanged() {
    const preset = this.list.presets.find((one) => one.name === this.preset.value);
    this.presetHelp.textContent = preset ? preset.options || "no option differs from its default"
        : "How tokens are decided. Options below change single parts of it.";
    for (const details of this.root.querySelectorAll("details")) {
      const said = [...details.querySelectorAll("input, select")].filter((input) => input.value.trim() !== "").length;
      details.querySelector(".count").textContent = said || "";
    }
    this.changed(this.values());
  }
}

function valueOf(text) {
  if (text === "true" || text === "false") return text === "true";
  return /^-?(\d+\.?\d*|\.\d+)(e-?\d+)?$/i.test(text) ? Number(text) : text;
}

// Without the dashes of the command line.
function helpOf(option) {
  const help = option.help.replace(/--([a-z][a-z-]*)/g, (_, name) => name.replaceAll("-", " "));
  return option.needed ? `${help} (${option.needed})` : help;
}

function groupsOf(options) {
  const groups = new Map();
  for (const option of options) {
    if (!groups.has(option.group)) groups.set(option.group, []);
    groups.get(option.group).push(option);
  }
  return groups;
}
