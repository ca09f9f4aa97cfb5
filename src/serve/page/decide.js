// Questions with known answers: no text is written, the model says how probable each answer is.
"use strict";

const kQuestionTypes = [["predicate", "yes or no"], ["choice", "one of"], ["score", "a scale"]];
const kFirstQuestions = [
  { type: "predicate", text: "Does the writer want money back?", options: "" },
  { type: "choice", text: "Which tone is it?", options: "calm\nangry\nsad" },
];
// Below this share of all probability the model meant to say something else than the answers it was given.
const kLittleMass = 0.01;

class Decide {
  constructor(page) {
    this.page = page;
    this.input = document.getElementById("decide-input");
    this.button = document.getElementById("decide-send");
    this.list = document.getElementById("questions");
    kept.field(this.input);
    if (this.input.value === "") this.input.value = "The parcel never came. I want my money back, now!";
    const before = kept.get("questions", []);
    const usable = Array.isArray(before) ? before.filter((one) =>
        one && kQuestionTypes.some(([type]) => type === one.type) && typeof one.text === "string" &&
        typeof one.options === "string") : [];
    this.questions = usable.length > 0 ? usable : structuredClone(kFirstQuestions);
    document.getElementById("add-question").addEventListener("click", () => {
      this.questions.push({ type: "predicate", text: "", options: "" });
      this.paint();
      this.list.lastElementChild.querySelector("input").focus();
    });
    document.getElementById("decide-form").addEventListener("submit", (event) => {
      event.preventDefault();
      page.work.pressed(this.button, () => this.run());
    });
    this.paint();
  }

  paint() {
    this.list.replaceChildren(...this.questions.map((question, i) => this.rowOf(question, i)));
    kept.set("questions", this.questions);
  }

  rowOf(question, i) {
    const row = make("li", "question"), type = makeSelect(kQuestionTypes);
    type.value = question.type;
    type.setAttribute("aria-label", "Kind of answer");
    const text = makeInput(`Question ${i + 1}`, question.text);
    text.placeholder = "Is it spam?";
    const options = make("textarea");
    Object.assign(options, { rows: 3, value: question.options, spellcheck: false });
    options.placeholder = question.type === "score" ? "levels from low to high, one a line" : "answers, one a line";
    options.setAttribute("aria-label", `Answers of question ${i + 1}, one a line`);
    const keep = () => {
      Object.assign(question, { text: text.value, options: options.value });
      kept.set("questions", this.questions);
    };
    text.addEventListener("input", keep);
    options.addEventListener("input", keep);
    type.addEventListener("change", () => {
      question.type = type.value;
      this.paint();
      this.list.children[i].querySelector("select").focus();
    });
    const remove = makeButton("quiet small", "✕", () => {
      this.questions.splice(i, 1);
      this.paint();
      document.getElementById("add-question").focus();
    });
    remove.setAttribute("aria-label", `Remove question ${i + 1}`);
    row.append(text, type, remove);
    if (question.type !== "predicate") row.append(options);
    return row;
  }

  body() {
    const questions = this.questions.filter((one) => one.text.trim() !== "").map(({ type, text, options }) => {
      const lines = linesOf(options);
      const asked = { type, instructions: text };
      if (type === "choice") asked.choices = lines.map((value) => ({ value }));
      if (type === "score") asked.levels = lines.map((label) => ({ label }));
      if (type !== "predicate" && lines.length < 2)
        throw new Error(`"${text}": found ${plural(lines.length, "answer")}, needed two at least, one a line.`);
      return asked;
    });
    if (questions.length === 0) throw new Error("There is no question yet.");
    return { input: this.input.value, questions, llada: { labels: document.getElementById("decide-labels").value } };
  }

  async run() {
    const place = document.getElementById("decide-answer");
    place.replaceChildren();
    await this.page.work.run(this.button, async (signal) => {
      try {
        const body = this.body();
        const said = await this.page.server.post("v1/decisions", body, signal);
        const { forwards, input_tokens: read } = said.usage;
        const line = `${plural(forwards, "forward")} · ${plural(read, "token")} read · no text written`;
        const asked = (i) => body.questions[i];
        place.append(...said.answers.map((answer, i) => decisionOf(asked(i), answer)), make("p", "line", line));
        announce(said.answers.map((answer, i) => `${asked(i).instructions} ${decisionSaid(answer)}.`).join(" "));
      } catch (error) {
        if (signal.aborted) return;
        const box = make("p", "error", error.message);
        box.setAttribute("role", "alert");
        place.append(box);
      }
    });
  }
}

// [{name, share}] of an answer's options.
function sharesOf(answer) {
  if (answer.type === "predicate")
    return [{ name: "yes", share: answer.probability }, { name: "no", share: 1 - answer.probability }];
  return answer.probabilities.map(({ value, label, probability }) => ({ name: String(label ?? value),
                                                                         share: probability }));
}

function decisionSaid(answer) {
  const best = sharesOf(answer).reduce((a, b) => (b.share > a.share ? b : a));
  return `${best.name}, ${percent(best.share)}`;
}

function percent(share) {
  return `${(100 * share).toFixed(share > 0.001 && share < 0.999 ? 1 : 3)} %`;
}

function decisionOf(question, answer) {
  const card = make("section", "decision"), shares = sharesOf(answer);
  const best = Math.max(...shares.map(({ share }) => share));
  card.append(make("h2", "", question.instructions));
  const list = make("ul", "shares");
  for (const { name, share } of shares) {
    const item = make("li", share === best ? "best" : ""), bar = make("span", "share-bar"), fill = make("span");
    fill.style.setProperty("inline-size", `${100 * share}%`);
    bar.setAttribute("aria-hidden", "true");
    bar.append(fill);
    item.append(make("span", "share-name", name), bar, make("span", "share", percent(share)));
    list.append(item);
  }
  card.append(list);
  if (answer.type === "score")
    card.append(make("p", "line", `on the scale from 0 to ${shares.length - 1}: ${answer.score.toFixed(2)}`));
  const mass = answer.diagnostics && answer.diagnostics.label_mass;
  if (mass < kLittleMass)
    card.append(make("p", "notice", `Take it with care: left to itself the model would say one of these answers with ` +
                                    `${percent(mass)} only.`));
  return card;
}
