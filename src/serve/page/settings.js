// The form of the decoding options, made from the list that the server sends: a new option needs no change here.
"use strict";

const kSwitch = { true: "on", false: "off" };
const kFirst = ["gen_length", "temperature"];  // most people look for these

class SettingsForm {
  // changed(values): called with values() whenever they are others. before: values to begin with.
  // without: keys of options that another part of the page asks for.
  // list: {options: [{key, unit, help, group, default, choices}], presets: [{name, options}]}
  constructor(parent, list, changed, before = {}, without = []) {
    this.inputs = new Map();  // by key
    this.list = list;
    this.changed = changed || (() => {});
    this.root = make("div", "options");
    this.preset = this.choice(["", ...list.presets.map((preset) => preset.name)], "the server's own");
    const field = makeField("Preset", this.preset, "");
    this.presetHelp = field.querySelector(".help");
    this.root.append(field);
    for (const key of kFirst) {
      const option = list.options.find((one) => one.key === key);
      if (option) this.root.append(this.fieldOf(option));
    }
    const others = list.options.filter(({ key }) => !kFirst.includes(key) && !without.includes(key));
    for (const [title, options] of groupsOf(others)) this.root.append(this.group(title, options));
    this.root.append(makeButton("quiet", "Reset all", () => this.reset()));
    this.root.addEventListener("input", () => this.tellChanged());
    parent.append(this.root);
    this.preset.value = this.known(this.preset, before.preset);
    for (const [key, input] of this.inputs) input.value = this.known(input, before[key]);
    this.tellChanged();
  }

  group(title, options) {
    const details = make("details");
    const summary = make("summary", "", kGroups[title] || title);
    summary.append(make("span", "count"));
    details.append(summary);
    for (const option of options) details.append(this.fieldOf(option));
    return details;
  }

  fieldOf(option) {
    const input = this.inputOf(option);
    this.inputs.set(option.key, input);
    const [name, help] = kWords[option.key] || [option.key.replaceAll("_", " "), helpText(option.help)];
    const field = makeField(name, input, help + rangeOf(option));
    field.dataset.key = option.key;
    field.title = option.key;
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
    if (words) return this.choice(["", ...words], "as the preset says");
    const input = make("input");
    input.type = "text";
    input.inputMode = "decimal";
    input.spellcheck = false;
    input.placeholder = option.default === undefined || option.default === null ? "" : String(option.default);
    return input;
  }

  choice(words, none) {
    return makeSelect(words.map((word) => [word, word === "" ? none : kSwitch[word] || word]));
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
    this.presetHelp.textContent = kPresetWords[this.preset.value] || "What models of this family were published with.";
    this.presetHelp.title = preset ? helpText(preset.options) : "";
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
function helpText(text) {
  return text.replace(/--([a-z][a-z-]*)/g, (_, name) => name.replaceAll("-", " "));
}

// Bounds that a person may meet.
function rangeOf({ range }) {
  return range && range.least !== null && range.most !== null && range.most <= 1000
      ? ` From ${range.least} to ${range.most}.` : "";
}

function groupsOf(options) {
  const groups = new Map();
  for (const option of options) {
    if (!groups.has(option.group)) groups.set(option.group, []);
    groups.get(option.group).push(option);
  }
  return groups;
}
