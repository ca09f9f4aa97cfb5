// "Answer as": the form that every answer of the conversation has until it is set free again.
"use strict";

const kForms = [["free", "free text"], ["choice", "one of these"], ["json", "JSON by a schema"],
                ["object", "any JSON object"], ["template", "a text with gaps"], ["regex", "a pattern"]];
const kFirstSchema = JSON.stringify(schemaOfRows([
  { name: "name", kind: "text", required: true }, { name: "age", kind: "integer", required: true },
  { name: "city", kind: "text", required: true }, { name: "job", kind: "text", required: true },
]), null, 2);
const kGaps = ["<string>", "<int 0..100>", "<number>", "<bool>", "<choice a|b>", "<word>", "<text>"];
// Options that this panel says, so that the settings beside it do not.
const kFormKeys = ["choice", "regex", "json_schema", "json_object", "template"];

class AnswerForm {
  constructor(changed) {
    this.changed = changed;
    this.button = document.getElementById("open-form");
    this.panel = document.getElementById("form-panel");
    listenToPanel(this.button, this.panel);
    const before = kept.get("form", {});
    const text = (key, otherwise) => (typeof before[key] === "string" ? before[key] : otherwise);
    this.kind = makeSelect(kForms);
    this.kind.id = "form-kind";
    this.kind.value = kForms.some(([value]) => value === before.kind) ? before.kind : "free";
    this.panel.append(makeField("Answer as", this.kind));
    this.fields = {
      choice: this.area("The answer is one of these texts, one a line.", text("choice", "yes\nno"), 3),
      regex: this.area("The whole answer fits this regular expression.", text("regex", "\\d+( \\d+)*"), 1),
      template: this.area("The answer is this text, with the gaps filled.",
                          text("template", "{\"name\": <string>, \"age\": <int 0..150>}"), 2),
    };
    const gaps = make("div", "row");
    for (const gap of kGaps) gaps.append(makeButton("quiet small", gap, () => this.addGap(gap)));
    this.fields.template.root.append(gaps);
    const json = make("div");
    json.append(make("p", "help", "The answer is a JSON object with these fields."));
    this.schema = new SchemaEditor(json, text("schema", kFirstSchema), () => this.tell());
    this.fields.json = { root: json };
    this.fields.object = { root: make("p", "help", "The answer is a JSON object with whatever fields it likes.") };
    this.fields.free = { root: make("p", "help", "The answer is text as the model writes it.") };
    for (const field of Object.values(this.fields)) this.panel.append(field.root);
    this.panel.addEventListener("input", () => this.tell());
    this.tell();
  }

  area(help, value, rows) {
    const input = make("textarea", "code-area");
    Object.assign(input, { rows, value, spellcheck: false, autocomplete: "off" });
    const root = make("div");
    root.append(makeField(help, input));
    return { root, input };
  }

  addGap(gap) {
    const input = this.fields.template.input;
    input.setRangeText(gap, input.selectionStart, input.selectionEnd, "end");
    input.focus();
    this.tell();
  }

  tell() {
    for (const [kind, field] of Object.entries(this.fields)) field.root.hidden = kind !== this.kind.value;
    this.button.textContent = "Answer as: " + this.kind.selectedOptions[0].textContent;
    this.button.classList.toggle("set", this.kind.value !== "free");
    kept.set("form", { kind: this.kind.value, schema: this.schema.text, choice: this.fields.choice.input.value,
                       regex: this.fields.regex.input.value, template: this.fields.template.input.value });
    this.changed();
  }

  // The part of "llada" that holds an answer to the form, or null. An error names the missing part in one line.
  values() {
    const text = (kind) => this.fields[kind].input.value;
    switch (this.kind.value) {
      case "choice": {
        const lines = linesOf(text("choice"));
        if (lines.length === 0) throw new Error("Answer as one of these: there is no text to choose.");
        return { choice: lines.map((line) => line.replace(/[|\\]/g, "\\$&")).join("|") };
      }
      case "regex":
      case "template":
        if (text(this.kind.value) === "") throw new Error("Answer as: the field is empty.");
        return { [this.kind.value]: text(this.kind.value) };
      case "json": return { json_schema: JSON.stringify(this.schema.value()) };
      case "object": return { json_object: 3 };
      default: return null;
    }
  }
}

// A form as the conversation shows it.
function formSaid(form) {
  if (form.choice !== undefined)
    return "as one of: " + form.choice.replace(/\\([|\\])|\|/g, (_, c) => c || ", ");
  if (form.regex !== undefined) return "by the pattern " + form.regex;
  if (form.template !== undefined) return "in the form of " + form.template;
  if (form.json_object !== undefined) return "as a JSON object";
  try {
    const names = Object.keys(JSON.parse(form.json_schema).properties || {});
    return "as JSON" + (names.length > 0 ? ": " + names.join(", ") : " by a schema");
  } catch {
    return "as JSON by a schema";
  }
}
