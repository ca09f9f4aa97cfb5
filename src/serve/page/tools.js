// Functions that the model may call, and calls as cards on which a person types their results.
"use strict";

const kToolChoices = [["auto", "may call them"], ["required", "must call one"], ["none", "is not told of them"]];
const kFirstTool = {
  name: "", description: "",
  schema: JSON.stringify(schemaOfRows([{ name: "city", kind: "text", required: true }]), null, 2),
};

class ToolsPanel {
  constructor(changed) {
    this.changed = changed;
    this.button = document.getElementById("open-tools");
    this.panel = document.getElementById("tools-panel");
    listenToPanel(this.button, this.panel);
    const before = kept.get("tools", {});
    this.tools = (Array.isArray(before.tools) ? before.tools : []).filter(
        (tool) => tool && ["name", "description", "schema"].every((key) => typeof tool[key] === "string"));
    this.choice = makeSelect(kToolChoices);
    this.choice.id = "tool-choice";
    this.choice.value = kToolChoices.some(([value]) => value === before.choice) ? before.choice : "auto";
    this.choice.addEventListener("change", () => this.tell());
    this.list = make("div", "tool-list");
    this.add = makeButton("quiet small", "Add a function", () => {
      this.tools.push({ ...kFirstTool });
      this.paint();
      this.list.lastElementChild.open = true;
      this.list.lastElementChild.querySelector("input").focus();
      this.tell();
    });
    this.panel.append(
        make("p", "help", "Functions that the model can ask for. They do not run here: a call is shown as a card, " +
                          "and you send back what the function gave."),
        this.list, this.add, makeField("The model", this.choice));
    this.paint();
    this.tell();
  }

  paint() {
    this.list.replaceChildren(...this.tools.map((tool) => this.toolOf(tool)));
  }

  toolOf(tool) {
    const details = make("details", "tool"), summary = make("summary");
    const name = makeInput("", tool.name), about = makeInput("", tool.description);
    name.placeholder = "weather";
    about.placeholder = "The weather in a city now";
    const said = make("p", "help error");
    const tell = () => {
      summary.textContent = tool.name || "a function without a name";
      said.textContent = tool.name === "" || /^[\w-]{1,64}$/.test(tool.name) ? ""
          : "A name has letters, digits, _ and - alone, 64 at most.";
      said.hidden = said.textContent === "";
      this.tell();
    };
    name.addEventListener("input", () => {
      tool.name = name.value.trim();
      tell();
    });
    about.addEventListener("input", () => {
      tool.description = about.value;
      tell();
    });
    details.append(summary, makeField("Name", name), said, makeField("What it does", about),
                   make("p", "field", "Its parameters"));
    new SchemaEditor(details, tool.schema, () => {}).changed = function () {
      tool.schema = this.text;
      tell();
    };
    details.append(makeButton("quiet small", "Remove this function", () => {
      this.tools.splice(this.tools.indexOf(tool), 1);
      this.paint();
      this.tell();
      this.add.focus();
    }));
    tell();
    return details;
  }

  get active() {
    return this.choice.value === "none" ? [] : this.tools.filter((tool) => tool.name !== "");
  }

  tell() {
    const count = this.active.length;
    this.button.textContent = count > 0 ? `Tools: ${count}` : "Tools";
    this.button.classList.toggle("set", count > 0);
    kept.set("tools", { choice: this.choice.value, tools: this.tools });
    this.changed();
  }

  // Members of a request. An error is one line that names the function.
  values() {
    const tools = this.active.map((tool) => {
      let parameters;
      try {
        parameters = schemaFrom(tool.schema);
      } catch (error) {
        throw new Error(`Tools, ${tool.name}: ${error.message}`);
      }
      return { type: "function", function: { name: tool.name, description: tool.description, parameters } };
    });
    return tools.length > 0 ? { tools, tool_choice: this.choice.value } : {};
  }
}

// The calls of one answer. results: texts by call id, or null before they were sent; send(texts by id).
function callCards(calls, results, send) {
  const place = make("div", "calls");
  const areas = new Map();
  for (const call of calls) {
    const card = make("section", "call");
    card.setAttribute("aria-label", "Call of " + call.name);
    const head = make("div", "call-head");
    head.append(make("span", "call-name", call.name), copyButton("Copy the arguments", () => call.arguments));
    const code = make("pre", "", indented(call.arguments));
    scrolls(code, "Arguments");
    card.append(head, code);
    if (results) {
      card.append(make("p", "field", "Result"), make("pre", "call-result", results.get(call.id) ?? ""));
    } else {
      const area = make("textarea", "code-area");
      Object.assign(area, { rows: 2, spellcheck: false, placeholder: "what the function gave, as text or JSON" });
      areas.set(call.id, area);
      card.append(makeField("Result", area));
    }
    place.append(card);
  }
  if (!results)
    place.append(makeButton("main send-results", calls.length > 1 ? "Send the results" : "Send the result", () => {
      send(new Map([...areas].map(([id, area]) => [id, area.value])));
    }));
  return place;
}

function indented(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;  // a call that was cut
  }
}
