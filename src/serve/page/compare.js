// Two settings on one prompt, side by side.
"use strict";

// A question that the shipped model can answer.
const kQuestion = "Fred has 20 puzzles. Ken has 6 more than Fred. Theo has 3 fewer than Ken. "
                  + "How many puzzles do Fred and Theo have together?";

class Compare {
  constructor(page, list) {
    this.page = page;
    this.button = document.getElementById("compare-send");
    this.sides = ["a", "b"].map((name) => {
      const side = document.getElementById("side-" + name);
      const details = make("details", "side-settings");
      details.append(make("summary", "", "Settings"));
      const said = make("p", "said", "as the server decides");
      side.append(details, said);
      const form = new SettingsForm(details, list, (values) => { said.textContent = describe(values); });
      const place = side.appendChild(make("div"));
      return { form, place, said };
    });
    if (list.presets.some((preset) => preset.name === "exact")) {
      this.sides[1].form.preset.value = "exact";
      this.sides[1].form.tellChanged();
    }
    const prompt = document.getElementById("compare-prompt");
    kept.field(prompt);
    if (prompt.value === "") prompt.value = kQuestion;
    document.getElementById("compare-form").addEventListener("submit", (event) => {
      event.preventDefault();
      page.work.pressed(this.button, () => this.run());
    });
  }

  retry() {
    if (!this.page.work.busy) this.run();
  }

  async run() {
    const prompt = document.getElementById("compare-prompt").value;
    if (prompt.trim() === "") return;
    const views = this.sides.map((side) => {
      side.place.replaceChildren();
      return new AnswerView(side.place);
    });
    const messages = [{ role: "user", content: prompt }];
    await this.page.work.run(this.button, async (signal) => {
      const body = (i) => this.page.chatBody(messages, this.sides[i].form.values());
      const one = (i) => streamInto(views[i], this.page.server, "v1/chat/completions", body(i), signal,
                                    () => this.retry());
      if (document.getElementById("together").checked) await Promise.all([one(0), one(1)]);
      else for (const i of [0, 1]) await one(i);
      if (!signal.aborted)
        announce(views.map((view, i) => `${"AB"[i]}: ${view.recording.text}. ${view.summaryText || ""}`).join(" "));
    });
  }
}

function describe(values) {
  const said = Object.entries(values).map(([key, value]) => `${key} ${value}`);
  return said.length > 0 ? said.join(", ") : "as the server decides";
}
