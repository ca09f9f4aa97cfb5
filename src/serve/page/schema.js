// A small JSON schema as rows that a person can edit: a name, a kind, whether it must be there; beside them the
// schema's own text, which may say more than rows can. A group has rows of its own, one level deep.
"use strict";

const kKinds = [["text", "text"], ["integer", "whole number"], ["number", "number"], ["boolean", "yes or no"],
                ["choice", "one of"], ["texts", "list of texts"], ["numbers", "list of numbers"], ["group", "group"],
                ["groups", "list of groups"]];

// row: {name, kind, required, choices: [texts], rows}
function schemaOfRow(row) {
  switch (row.kind) {
    case "text": return { type: "string" };
    case "choice": return { type: "string", enum: row.choices };
    case "texts": return { type: "array", items: { type: "string" } };
    case "numbers": return { type: "array", items: { type: "number" } };
    case "group": return schemaOfRows(row.rows);
    case "groups": return { type: "array", items: schemaOfRows(row.rows) };
    default: return { type: row.kind };
  }
}

function schemaOfRows(rows) {
  const named = rows.filter((row) => row.name !== "");
  // fromEntries makes members of its own, also of a name like __proto__.
  const schema = { type: "object", properties: Object.fromEntries(named.map((row) => [row.name, schemaOfRow(row)])) };
  const required = named.filter((row) => row.required).map((row) => row.name);
  return required.length > 0 ? { ...schema, required } : schema;
}

// null: the schema says something that rows cannot.
function rowsOfSchema(schema, levels = 1) {
  const rows = [];
  for (const [name, value] of Object.entries((schema && schema.properties) || {})) {
    const row = rowOfSchema(name, value, levels);
    if (!row) return null;
    row.required = Array.isArray(schema.required) && schema.required.includes(name);
    rows.push(row);
  }
  return sameJson(schema, schemaOfRows(rows)) ? rows : null;
}

function rowOfSchema(name, value, levels) {
  const type = value && value.type, items = type === "array" ? value.items : undefined;
  const row = { name, kind: type, choices: [], rows: [] };
  if (type === "string") {
    row.kind = value.enum === undefined ? "text" : "choice";
    row.choices = Array.isArray(value.enum) ? value.enum : [];
    return row.choices.every((choice) => typeof choice === "string") ? row : null;
  }
  if (items && items.type !== "object")
    return { ...row, kind: items.type === "string" ? "texts" : items.type === "number" ? "numbers" : "" };
  if (type !== "object" && !items) return row;
  row.kind = items ? "groups" : "group";
  row.rows = levels > 0 ? rowsOfSchema(items || value, levels - 1) : null;
  return row.rows ? row : null;
}

// Without regard to the order of members, but for that of "required".
function sameJson(a, b) {
  if (a === null || b === null || typeof a !== "object" || typeof b !== "object") return a === b;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const keys = Object.keys(a);
  if (keys.length !== Object.keys(b).length) return false;
  return keys.every((key) => Object.hasOwn(b, key) && sameJson(a[key], b[key]));
}

class SchemaEditor {
  // changed(): called when text is another one.
  constructor(parent, text, changed) {
    this.changed = changed;
    this.root = make("div", "schema");
    this.rowsPlace = make("div", "schema-rows");
    this.said = make("p", "help");
    this.said.setAttribute("role", "status");
    const raw = make("details", "schema-raw");
    this.area = make("textarea", "code-area");
    Object.assign(this.area, { rows: 6, spellcheck: false, autocomplete: "off" });
    this.area.setAttribute("aria-label", "The schema as JSON");
    raw.append(make("summary", "", "As JSON"), this.area);
    this.area.addEventListener("input", () => {
      this.readText();
      this.changed();
    });
    this.root.append(this.rowsPlace, this.said, raw);
    this.raw = raw;
    parent.append(this.root);
    this.area.value = text;
    this.readText();
  }

  get text() {
    return this.area.value;
  }

  // The schema as an object; an error says in one line why it is none.
  value() {
    return schemaFrom(this.text);
  }

  set(text) {
    this.area.value = text;
    this.readText();
  }

  readText() {
    let rows = null, said = "";
    try {
      rows = rowsOfSchema(this.value());
      if (!rows) said = "This schema says more than rows can show: it is edited as JSON.";
    } catch (error) {
      said = error.message;
    }
    this.rows = rows;
    this.said.textContent = said;
    this.area.setAttribute("aria-invalid", String(said !== "" && !rows && said.startsWith("The schema")));
    this.rowsPlace.hidden = rows === null;
    if (rows === null) this.raw.open = true;
    else this.paint();
  }

  writeText() {
    this.area.value = JSON.stringify(schemaOfRows(this.rows), null, 2);
    this.changed();
  }

  // Anew, since a row came or went; `focus` (rows, index) is where a person goes on, or none.
  paint(rows, at) {
    this.rowsPlace.replaceChildren(this.listOf(this.rows, 1, ""));
    if (!rows) return;
    const inputs = [...this.rowsPlace.querySelectorAll(".schema-row")].filter((element) => element.rows === rows);
    const next = inputs[Math.min(at, inputs.length - 1)];
    (next ? next.querySelector("input") : this.rowsPlace.querySelector(".add-row")).focus();
  }

  listOf(rows, levels, within) {
    const list = make("div", "schema-list");
    list.setAttribute("role", "group");
    list.setAttribute("aria-label", within ? "Fields of " + within : "Fields");
    for (const row of rows) list.append(this.rowOf(rows, row, levels));
    list.append(makeButton("quiet small add-row", within ? "Add a field to this group" : "Add a field", () => {
      rows.push({ name: "", kind: "text", required: true, choices: [], rows: [] });
      this.paint(rows, rows.length - 1);
      this.writeText();
    }));
    return list;
  }

  rowOf(rows, row, levels) {
    const element = make("div", "schema-row");
    element.rows = rows;
    const name = makeInput("Name of the field", row.name);
    name.placeholder = "name";
    name.addEventListener("input", () => {
      row.name = name.value.trim();
      this.tellDoubles(rows);
      this.writeText();
    });
    const kind = makeSelect(levels > 0 ? kKinds : kKinds.filter(([value]) => !value.startsWith("group")));
    kind.setAttribute("aria-label", "Kind of the field");
    kind.value = row.kind;
    const at = () => rows.indexOf(row);
    const more = make("div", "schema-more");
    const paintMore = () => more.replaceChildren(...this.moreOf(row, levels));
    kind.addEventListener("change", () => {
      row.kind = kind.value;
      paintMore();
      this.writeText();
    });
    const needed = make("input");
    Object.assign(needed, { type: "checkbox", checked: row.required });
    needed.addEventListener("change", () => {
      row.required = needed.checked;
      this.writeText();
    });
    const label = make("label", "tick");
    label.append(needed, "required");
    const remove = makeButton("quiet small", "✕", () => {
      const was = at();
      rows.splice(was, 1);
      this.paint(rows, was);
      this.writeText();
    });
    remove.setAttribute("aria-label", `Remove the field ${row.name}`.trim());
    paintMore();
    element.append(name, kind, label, remove, more);
    return element;
  }

  // Further fields of some kinds.
  moreOf(row, levels) {
    if (row.kind === "choice") return [this.choicesOf(row)];
    if (row.kind !== "group" && row.kind !== "groups") return [];
    return [this.listOf(row.rows, levels - 1, row.name || "the group")];
  }

  choicesOf(row) {
    const area = make("textarea", "schema-choices");
    Object.assign(area, { rows: 2, value: row.choices.join("\n"), spellcheck: false });
    area.placeholder = "one choice a line";
    area.setAttribute("aria-label", "Choices, one a line");
    area.addEventListener("input", () => {
      row.choices = linesOf(area.value);
      this.writeText();
    });
    return area;
  }

  tellDoubles(rows) {
    const names = rows.map((row) => row.name).filter(Boolean);
    const twice = names.find((name, i) => names.indexOf(name) !== i);
    this.said.textContent = twice === undefined ? "" : `Two fields have the name ${twice}: the last one counts.`;
  }
}

function schemaFrom(text) {
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error("The schema is not JSON yet: " + error.message);
  }
  if (value === null || typeof value !== "object" || Array.isArray(value))
    throw new Error("The schema: found " + shown(value) + ", needed an object");
  return value;
}

function linesOf(text) {
  return [...new Set(text.split("\n").map((line) => line.trim()).filter(Boolean))];
}
