// The decoding options in a person's words: [name, its effect on answers]. An option that is missing here has
// the server's own words.
"use strict";

const kWords = {
  gen_length: ["Longest answer", "In tokens, about three quarters of a word each. Empty: as long as it needs."],
  temperature: ["Temperature", "0 gives the most likely answer, the same each time. From about 0.7 on answers vary."],
  block_length: ["Block",
    "The answer is decided in blocks from left to right; this many tokens at once. Larger blocks let late words " +
    "shape early ones, and take longer."],
  slide: ["Moving block",
    "The block moves on with the first undecided token, instead of waiting until all of it is decided. Faster."],
  steps: ["Fixed number of steps", "Spreads the whole answer evenly over so many steps. 0: as many as it takes."],
  accept: ["Rule for deciding",
    "How it is chosen which words to keep after each step. Most rules belong to one family of models; threshold " +
    "suits nearly all."],
  threshold: ["How sure a word must be",
    "A word is kept once the model is at least this sure of it: 0.9 is 90 %. Lower is faster and makes more " +
    "mistakes."],
  factor: ["Boldness of the factor rule", "With the rule factor: a larger number keeps more words per step."],
  entropy_bound: ["Doubt allowed per step",
    "With the rules entropy and wedlm: how much doubt the words of one step may have together. Higher is faster and " +
    "bolder."],
  entropy_gate: ["Wait for words on the left",
    "A word waits while those before it are still too uncertain. 0: it does not wait."],
  seed: ["Seed", "The same number gives the same answer again, also with a temperature. Empty: a new one each time."],
  top_k: ["Only the best words", "With a temperature: chooses among so many of the likeliest words. 0: among all."],
  top_p: ["Only likely words",
    "With a temperature: chooses among the likeliest words that together have this share of the probability. 1: " +
    "among all."],
  min_p: ["Leave out unlikely words",
    "With a temperature: leaves out words that are less likely than this share of the likeliest one. 0: none."],
  repeat_penalty: ["Against repetition", "Above 1, words that stand nearby already become less likely. 1: no change."],
  neighbour_penalty: ["Against doubled words", "Makes it less likely that a word follows itself. 0: no change."],
  cfg_scale: ["Keep closer to the question",
    "Strengthens what the question asks for against what the model would write anyway. Costs twice the time; 0: " +
    "off."],
  early_stop: ["When to stop",
    "answer: as soon as the text up to its end is final. block: once the block with the end is done. none: only " +
    "when every position is decided."],
  logits_eos_inf: ["Never end early", "The answer fills its whole length, since the model may not end it."],
  confidence_eos_eot_inf: ["Decide the end last",
    "Where the answer ends is decided after its words. Helps against answers that are too short."],
  choice: ["One of these texts", "Texts with | between them; the answer is one of them."],
  regex: ["A pattern", "The whole answer fits this regular expression."],
  json_schema: ["JSON by a schema", "The answer is JSON that fits this schema."],
  json_object: ["A JSON object", "The answer is a JSON object of at most so many levels. 0: it need not be one."],
  template: ["A text with gaps", "The answer is this text with its gaps filled, such as <int 0..150> or <string>."],
  kv: ["Work that is reused",
    "How much of an earlier step the next one takes over. none: nothing, slow and exact; dual and prefix: most of " +
    "it, faster."],
  tail: ["Looking ahead", "How many undecided positions behind the block are taken into account."],
  refresh_after: ["Start afresh after",
    "What is reused is computed again after so many new words. Fewer is more exact and slower. 0: as above."],
  mbsd: ["Work ahead", "Drafts the blocks that follow while few positions of the present one are left."],
  mbsd_trigger: ["Work ahead from", "Begins with it when fewer than so many positions of the block are left."],
  mbsd_threshold: ["How sure a draft must be",
    "A drafted word is kept only if the model is this sure of it each time."],
  latency_table: ["Time of a step", "Lets drafts be made only where they cost no time. device: measured at the start."],
  revision: ["Looking at words again",
    "How words that are decided are looked at again. Naming a number below chooses the way that it belongs to."],
  stable_threshold: ["When a word is final",
    "With dual-path: words that the model is this sure of are never looked at again."],
  revise_lateness: ["When to look again",
    "fused: in the same step. A number or ready: beside it, with the result taken later."],
  revise_rows: ["Words looked at again", "So many of the least certain ones, in every step."],
  edit_threshold: ["How sure a correction must be",
    "Another word replaces a decided one when the model is surer of it than this."],
  edit_steps: ["Steps for corrections alone", "How many further steps a finished block may take to correct itself."],
  denoising_steps: ["Most steps of a canvas", "For DiffusionGemma: after so many steps a canvas is taken as it is."],
  confidence_threshold: ["When a canvas is done",
    "For DiffusionGemma: once its words stay, with less doubt than this on average."],
};

const kGroups = {
  Length: "Length and blocks", Acceptance: "Speed and care", Sampling: "Variety", Guidance: "Guidance",
  "End of the answer": "Where the answer ends", "Form of the answer": "Form of the answer",
  Caches: "Reused work", "Drafts of blocks ahead": "Working ahead", Revision: "Second thoughts",
  "Canvases of random tokens": "Random canvases",
};

const kPresetWords = {
  "": "Follows the model: fast, with a second look at words it was not sure of.",
  exact: "One word per step and nothing reused: slow, and what others are compared with.",
  balanced: "Keeps a word when the model is 90 % sure, and looks at doubtful ones again.",
  fast: "As balanced, but bolder: 85 % are enough.",
};
