// Text with Markdown and formulas as elements of the page. Texts come from models, people and imported files, so
// nothing in them is trusted: HTML is shown as text, images as links, and DOMPurify lets through the tags and
// attributes listed here alone. Formulas become MathML, which needs neither fonts nor styles.
"use strict";

const kLongestFormatted = 40000;  // characters; a longer text stays plain
// marked looks through the rest of a text for the end of each emphasis, so the number of these looks is bounded.
const kMostEmphasis = 300;
const kLongestFormula = 2000;

const kTags = ["p", "br", "hr", "em", "strong", "del", "code", "pre", "blockquote", "ul", "ol", "li", "h3",
  "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td", "a"];
const kMathTags = ["math", "menclose", "merror", "mfrac", "mi", "mmultiscripts", "mn", "mo", "mover", "mpadded",
  "mphantom", "mprescripts", "mroot", "mrow", "mspace", "msqrt", "mstyle", "msub", "msubsup", "msup", "mtable", "mtd",
  "mtext", "mtr", "munder", "munderover"];
const kAttributes = ["start", "align", "class", "accent", "accentunder", "columnalign", "columnlines",
  "columnspacing", "depth", "display", "displaystyle", "fence", "height", "largeop", "linethickness", "lspace",
  "mathcolor", "mathsize", "mathvariant", "maxsize", "minsize", "movablelimits", "notation", "rowlines", "rowspacing",
  "rspace", "scriptlevel", "separator", "stretchy", "symmetric", "voffset", "width"];
const kClean = {
  ALLOWED_TAGS: [...kTags, ...kMathTags], ALLOWED_ATTR: ["href", ...kAttributes], ADD_URI_SAFE_ATTR: kAttributes,
  ALLOWED_URI_REGEXP: /^(?:https?:\/\/|mailto:)/i,
  ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false, ADD_FORBID_CONTENTS: ["annotation"], RETURN_DOM_FRAGMENT: true,
};

function escaped(text) {
  return text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}

function formula(tex, display) {
  if (tex.length <= kLongestFormula) {
    try {
      return katex.renderToString(tex, { output: "mathml", displayMode: display, trust: false, strict: "ignore",
                                         throwOnError: true, maxExpand: 200, maxSize: 20 });
    } catch {
      // Shown as it was written.
    }
  }
  return `<code>${escaped(tex)}</code>`;
}

// Up to 2,000 characters between two brackets at the beginning of `text`, as exec() gives a match and its group; or null.
// A lazy pattern would try each of them anew at every bracket that is never closed.
function between(text, open, close) {
  const end = text.startsWith(open) ? text.slice(0, open.length + 2000 + close.length).indexOf(close, open.length + 1) : -1;
  return end < 0 ? null : [text.slice(0, end + close.length), text.slice(open.length, end)];
}

// A formula at the beginning of `text`, or null: $a$, $$a$$, \(a\), \[a\]. A dollar before a space or after one, or
// before a digit, is money.
function formulaAt(text) {
  const found = /^\$\$([^$]{1,2000})\$\$/.exec(text) || between(text, "\\[", "\\]");
  if (found) return { raw: found[0], tex: found[1].trim(), display: true };
  const inline = /^\$(?!\s)((?:\\[^\n]|[^$\\\n]){1,1000}?)(?<!\s)\$(?![\d$])/.exec(text) ||
                 between(text, "\\(", "\\)");
  return inline && { raw: inline[0], tex: inline[1].trim(), display: false };
}

const kFormula = {
  name: "formula",
  level: "inline",
  start: (text) => {
    const at = text.search(/\$|\\[([]/);
    return at < 0 ? undefined : at;
  },
  tokenizer(text) {
    const found = formulaAt(text);
    return found ? { type: "formula", ...found } : undefined;
  },
  renderer: ({ tex, display }) => formula(tex, display),
};
// On lines of its own a formula may hold empty lines, and lines that look like a list.
const kFormulaBlock = {
  ...kFormula,
  name: "formulaBlock",
  level: "block",
  start: (text) => {
    const at = text.search(/(?<=^|\n)(?:\$\$|\\\[)/);
    return at < 0 ? undefined : at;
  },
  tokenizer(text) {
    const found = formulaAt(text);
    const whole = found && found.display && /^[ \t]*(?:\n|$)/.exec(text.slice(found.raw.length));
    return whole ? { type: "formulaBlock", ...found, raw: found.raw + whole[0] } : undefined;
  },
  renderer: ({ tex }) => `<p>${formula(tex, true)}</p>`,
};

function parserOf() {
  let looks = 0;
  const parser = new marked.Marked({ gfm: true, breaks: true });
  parser.use({
    extensions: [kFormula, kFormulaBlock],
    // undefined: no token begins here; false: marked looks itself.
    tokenizer: { emStrong: () => (++looks > kMostEmphasis ? undefined : false),
                 del: () => (++looks > kMostEmphasis ? undefined : false) },
    renderer: {
      html: ({ text }) => escaped(text),
      // The page has headings of its own above these.
      heading({ tokens, depth }) {
        const level = Math.min(depth + 2, 6);
        return `<h${level}>${this.parser.parseInline(tokens)}</h${level}>`;
      },
      image: ({ href, text }) => `<a href="${escaped(href)}">${escaped(text || href)}</a>`,
      checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
    },
  });
  return parser;
}

// null: the text has nothing to format, or cannot be read as Markdown. One heading alone, as the "#### 43" below a sum,
// is not worth the tokens' colours, which a formatted text has no place for.
function formatted(text) {
  if (text.length > kLongestFormatted) return null;
  let fragment;
  try {
    fragment = DOMPurify.sanitize(parserOf().parse(text), kClean);
  } catch {
    return null;  // nested too deeply
  }
  const headings = fragment.querySelectorAll("h3, h4, h5, h6").length;
  if (headings < 2 && !fragment.querySelector("*:not(p, br, hr, h3, h4, h5, h6)")) return null;
  const languages = [...fragment.querySelectorAll("pre > code")].map((code) => [code, languageOf(code)]);
  for (const element of fragment.querySelectorAll("[class]")) element.removeAttribute("class");
  for (const link of fragment.querySelectorAll("a"))
    Object.assign(link, { target: "_blank", rel: "noopener noreferrer nofollow" });
  for (const block of fragment.querySelectorAll("ul, ol, table, blockquote")) block.dir = "auto";
  for (const pre of fragment.querySelectorAll("pre")) scrolls(pre, "Code");
  for (const [code, language] of languages) frameCode(code, language);
  for (const table of fragment.querySelectorAll("table")) {
    const frame = make("div", "scroll");
    table.replaceWith(frame);
    frame.append(table);
    scrolls(frame, "Table");
  }
  return fragment;
}

function languageOf(code) {
  return (/^language-([\w+#.-]{1,30})$/.exec(code.className) || [])[1] || "";
}

// A part that is wider than the page scrolls by itself, by the keyboard too.
function scrolls(element, name) {
  element.tabIndex = 0;
  element.setAttribute("role", "group");
  element.setAttribute("aria-label", name);
}

// A block of code gets a head: its language, and a button that copies it.
function frameCode(code, language) {
  const pre = code.parentElement, frame = make("div", "code"), head = make("div", "code-head");
  const text = code.textContent.replace(/\n$/, "");
  code.textContent = text;
  pre.replaceWith(frame);
  head.append(make("span", "", language || "code"), copyButton("Copy code", () => text));
  frame.append(head, pre);
}

// text(): copied when it is pressed.
function copyButton(name, text) {
  const button = make("button", "quiet small", "Copy");
  button.type = "button";
  button.setAttribute("aria-label", name);
  button.addEventListener("click", async () => {
    await copied(text());
    button.textContent = "Copied";
    announce("Copied");
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  return button;
}

// Without a secure origin, as at an address of the local network, a page has no clipboard but the selection's.
async function copied(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = document.body.appendChild(make("textarea", "away"));
  field.value = text;
  field.select();
  document.execCommand("copy");
  field.remove();
}
