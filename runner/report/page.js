const facts = JSON.parse(document.getElementById("facts").textContent);
const LONG = /[^\s]{14,}/g, JOINTS = /(?<=[._/,:;(]+)(?![._/,:;(])/;
function breakable(part) {  // long names break behind their joints, and only where a line of their own is too short
  if (typeof part !== "string") return part;
  const found = [];
  let end = 0;
  for (const { 0: word, index } of part.matchAll(LONG)) {
    const pieces = word.split(JOINTS);
    if (pieces.length < 2) continue;
    found.push(part.slice(end, index), make("span", { class: "name" }, pieces.map((piece, i) => [i > 0 && make("wbr"), piece])));
    end = index + word.length;
  }
  return [...found, part.slice(end)];
}
const paragraph = (kind) => ({ text }) => make("p", { class: kind }, breakable(text));
const folded = (title, ...inside) => make("details", {}, make("summary", {}, breakable(title)), inside);
const pairs = (names, kind) => make("dl", { class: kind }, Object.entries(names).filter(([, value]) => value).map(([name, value]) =>
  make("div", {}, make("dt", {}, breakable(name)), make("dd", {}, kind === "figures" ? value.split(/ (?=\[)/).map((each, i) => make(i ? "small" : "span", {}, each)) : breakable(value)))));

const PARTS = {
  note: paragraph("note"), problem: paragraph("problem"), label: paragraph("label"), text: paragraph("text"),
  section: ({ title, parts }) => make("section", {}, make("h2", {}, breakable(title)), parts.map(drawn)),
  details: ({ title, parts }) => folded(title, parts.map(drawn)),
  facts: ({ facts: names, look }) => pairs(names, look ?? "facts"),
  command: ({ title, text }) => [make("p", { class: "label" }, title), make("pre", { class: "command" }, breakable(text))],
  pre: ({ text }) => make("pre", {}, text),
  links: ({ files }) => make("p", {}, files.map((name, i) => [i ? ", " : "", make("a", { href: name }, name)])),
  tiles: ({ tiles }) => make("dl", { class: "tiles" }, tiles.map(([name, value, hint]) =>
    make("div", { class: "tile" }, make("dt", {}, name), make("dd", {}, breakable(value), make("span", { class: "hint" }, hint))))),
  charts: ({ charts: shown, names }) => [names && make("div", { class: "shared" }, legend(names)),
    make("div", { class: "charts" }, shown.map((data) => chartOf(data, spanOf(Object.keys(data.ticks).length ? [data] : shown), !names)))],
  table, matrix, samples, images, forest,
};
const drawn = (part) => PARTS[part.is](part);

const FIGURE = /^[+-]?[\d.,]+(e[+-]?\d+)?( ?%| (±|to) [+-]?[\d.,]+(e[+-]?\d+)?)?$/;
const isFigure = (value) => value === null || typeof value === "number" ||
  FIGURE.test(value.href === undefined && value.share === undefined ? value.text ?? value : "");

function cell(value, tag, marks = {}, digits = 4, isNumber = false) {
  if (value === null || typeof value === "number")
    return make(tag, { ...marks, class: "number", "data-value": value ?? "", title: value }, figure(value, digits));
  if (typeof value === "string") return make(tag, { ...marks, class: isNumber ? "number" : value.length < 24 ? "run" : "wrap" }, breakable(value));
  const { text, href, colour: group, small, share, kind, title } = value;
  return make(tag, { ...marks, title, class: isNumber ? "number" : kind ?? (share === undefined ? "run" : "bar"), style: share === undefined ? null : `--share:${share}` },
    group !== undefined && make("span", { class: `swatch ${colour(group)}` }), href === undefined ? breakable(text) : make("a", { href }, text),
    small && [make("br"), make("small", {}, small)]);
}

function grid({ heads, rows, marks, kind, find, sorts }, chosen) {
  const ofNumbers = heads.map((_, j) => j > 0 && rows.some((row) => isFigure(row[j])) && rows.every((row) => row[j] === "" || isFigure(row[j])));
  const head = heads.map((name, i) => make("th", { scope: "col", class: ofNumbers[i] && "number" },
    sorts ? make("button", { type: "button" }, name) : make("span", {}, name)));
  const digits = heads.map((_, j) => (find ? 3 : digitsOf(rows.map((row) => row[j]))));
  const body = make("tbody", {}, chosen.map((i) => {
    const { class: mark, below, ...data } = marks[i] ?? {};
    const row = make("tr", { class: mark }, rows[i].map((value, j) =>
      j ? cell(value, "td", { "data-head": find && heads[j] }, digits[j], ofNumbers[j]) : cell(value, "th", { scope: "row" })));
    Object.assign(row.dataset, data);
    if (!below) return row;
    row.below = make("tr", { class: "below" }, make("td", { colspan: heads.length }, make("div", {}, below)));
    return [row, row.below];
  }));
  const shown = make("table", { class: [kind, find && "browse"].filter(Boolean).join(" ") }, make("thead", {}, make("tr", {}, head)), body);
  if (sorts) head.forEach((one, i) => one.firstChild.addEventListener("click", () => sort(head, i, body)));
  return make("div", { class: "scroll" }, shown);
}

function table(part) {
  const { rows, first, fold, label: over, find } = part, all = rows.map((_, i) => i);
  if (!fold) return grid(part, all);
  const whole = grid(part, all);
  return [over && make("p", { class: "label" }, over), first.length > 0 && grid({ ...part, sorts: part.sorts && !find }, first),
    folded(fold, find && finder(whole, part), whole)];
}

function matrix({ labels, counts }) {
  const cellOf = (row, i) => (count, j) => ({ text: count ? figure(count, 9) : "", share: count / Math.max(1, row.reduce((a, b) => a + b)),
    title: `${labels[i]} as ${labels[j]}`, kind: i === j ? "number right" : "number" });
  const rows = counts.map((row, i) => [labels[i], ...row.map(cellOf(row, i))]);
  return grid({ heads: ["", ...labels], rows, marks: [], kind: "matrix" }, rows.map((_, i) => i));
}

function sort(heads, column, body) {
  const up = heads[column].getAttribute("aria-sort") !== "ascending";
  for (const other of heads) other.removeAttribute("aria-sort");
  heads[column].setAttribute("aria-sort", up ? "ascending" : "descending");
  const value = (row) => row.children[column].dataset.value ?? row.children[column].textContent;
  const rows = [...body.rows].filter((row) => row.className !== "below");
  body.append(...rows.sort((a, b) => {
    const [left, right] = [value(a), value(b)], [x, y] = [Number(left), Number(right)];
    if (left === "" || right === "") return (left === "") - (right === "");
    const least = Number.isNaN(x) || Number.isNaN(y) ? left.localeCompare(right, "en", { numeric: true }) : x - y;
    return up ? least : -least;
  }).flatMap((row) => [row, row.below].filter(Boolean)));
}

function finder(whole, { marks }) {
  const rows = [...whole.querySelectorAll("tbody tr")], count = make("output", {}, `${rows.length.toLocaleString("en-US")} shown`);
  const words = make("input", { type: "search", placeholder: "find", "aria-label": "find" }), only = make("input", { type: "checkbox" });
  const update = () => {
    const wanted = words.value.toLowerCase();
    for (const row of rows)
      row.hidden = (only.checked && row.className !== "wrong") || !row.textContent.toLowerCase().includes(wanted);
    count.textContent = `${rows.filter((row) => !row.hidden).length.toLocaleString("en-US")} shown`;
  };
  words.addEventListener("input", update);
  only.addEventListener("change", update);
  return make("p", { class: "find" }, words, marks.length > 0 && make("label", {}, only, " only wrong"), count);
}

function samples({ sets }) {
  const mark = ({ text, right, guesses }) => [text.slice(0, text.length - text.trimStart().length),
    make("mark", { class: right ? "right" : "wrong", title: guesses.map(([guess, share]) => `${guess} ${Math.round(100 * share)}%`).join(", ") },
      text.trimStart(), !right && make("i", {}, guesses[0][0]))];
  return Object.entries(sets).map(([name, texts]) => [Object.keys(sets).length > 1 && make("p", { class: "label" }, name),
    texts.map((pieces) => make("p", { class: "sample" }, pieces.map((piece) => typeof piece === "string" ? piece : mark(piece)).flat()))].flat());
}

function forest({ panels, note }) {  // places are shares of the axis, so that it is as wide as the page lets it
  const at = (place) => `${100 * place}%`, strip = (...inside) => make("div", { class: "strip", "aria-hidden": "true" }, draw("svg", {}, inside));
  const line = (kind, from, to, y1, y2) => draw("line", { class: kind, x1: at(from), x2: at(to), y1, y2 });
  const dot = (kind, place, cy, r) => draw("circle", { class: kind, cx: at(place), cy, r });
  const row = (zero) => ([name, words, found, mean, ends]) => [make("b", {}, name),
    strip(line("zero", zero, zero, 0, "100%"), found.map((place) => dot("pair", place, "30%", 2.5)),
      ends.length > 0 && line("ends", ...ends, "62%", "62%"), dot("mean", mean, "62%", 4.5)),
    make("span", { class: "words" }, words)];
  const axis = (ticks) => strip(line("axis", 0, 1, 0, 0), ticks.map(([place, words]) =>
    [line("axis", place, place, 0, 4), draw("text", { class: "x", x: at(place), y: 17 }, words)]));
  return [panels.map(([title, zero, ticks, rows]) => make("figure", { class: "forest" }, rows.map(row(zero)), axis(ticks),
    make("figcaption", {}, title))), note && make("p", { class: "note" }, note)];
}

function images({ images: shown }) {
  return make("div", { class: "shown" }, shown.map(({ image, text, predicted, gold, right }) =>
    make("figure", { class: right ? "right" : "wrong" }, make("img", { src: image, alt: "" }), make("figcaption", {}, text, make("br"),
      make("b", {}, predicted || "nothing"), !right && [make("br"), `accepted: ${gold.join(", ")}`]))));
}

const body = document.body, main = make("main");
main.append(make("header", {}, make("p", { class: "over" }, facts.kind), make("h1", {}, breakable(facts.name)),
  make("p", { class: "meta" }, facts.state && make("span", { class: `state ${facts.state.replace(/\W+/g, "-")}` }, facts.state), facts.meta.map((text) => make("span", {}, text))),
  facts.error && make("p", { class: "problem" }, facts.error)));
body.prepend(main);
fill(main, {}, facts.parts.map(drawn));
const sections = [...main.querySelectorAll("section")];
if (sections.length > 3) main.firstChild.append(make("nav", { "aria-label": "contents" }, sections.map((section, i) => {
  section.id = `part-${i + 1}`;
  return make("a", { href: `#${section.id}` }, breakable(section.firstChild.textContent));
})));

for (const source of document.querySelectorAll("li[data-group], tr[data-run], tr[data-group]")) {
  const name = "run" in source.dataset ? "run" : "group", own = charts.find((chart) => chart.named && chart.plot.parentNode.contains(source));
  const light = (on) => (own ? [own] : charts.filter((chart) => !chart.named)).forEach(({ svg }) => {
    svg.classList.toggle("lit-one", on);
    for (const path of svg.querySelectorAll("path[data-run]"))
      path.classList.toggle("lit", on && path.dataset[name] === source.dataset[name]);
  });
  source.addEventListener("pointerenter", () => light(true));
  source.addEventListener("pointerleave", () => light(false));
}

addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details")) part.open = true;
});
