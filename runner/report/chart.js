"use strict";
const SVG = "http://www.w3.org/2000/svg", COLOURS = 8, LEFT = 54, RIGHT = 20, TOP = 14, BOTTOM = 28;
const LOOKS = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "opacity",
  "font-family", "font-size", "text-anchor", "paint-order"];
const charts = [];

function fill(node, marks, inside) {
  for (const [name, value] of Object.entries(marks))
    if (value !== undefined && value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  node.append(...inside.flat(Infinity).filter((part) => part || part === 0));
  return node;
}

const make = (tag, marks = {}, ...inside) => fill(document.createElement(tag), marks, inside);
const draw = (tag, marks = {}, ...inside) => fill(document.createElementNS(SVG, tag), marks, inside);
const colour = (n) => `c${n % COLOURS}` + (n >= COLOURS ? ` dash${Math.min(Math.floor(n / COLOURS), 3)}` : "");

function figure(value, digits = 4) {
  if (value === null) return "";
  const size = Math.abs(value);
  if (size >= 1e10) return value.toExponential(2).replace("e+", "e");
  if (Number.isInteger(value) || size >= 10 ** (digits - 1)) return value.toLocaleString("en-US", { maximumFractionDigits: 0 });
  return size >= 0.001 ? value.toPrecision(digits) : value.toExponential(digits - 1).replace("e+", "e");
}

function digitsOf(values) {  // three, or as many as tell all values apart that five tell
  const known = values.filter((value) => typeof value === "number"), kinds = (digits) => new Set(known.map((v) => figure(v, digits))).size;
  return [3, 4].find((digits) => kinds(digits) === kinds(5)) ?? 5;
}

function label(value) {
  const size = Math.abs(value);
  if (size >= 1e10) return value.toExponential(1).replace("e+", "e");
  if (size >= 1e6) return Number((value / 1e6).toPrecision(4)) + "M";
  if (size >= 1000) return value.toLocaleString("en-US", { maximumFractionDigits: 0 });
  if (size && size < 0.0095) return value.toExponential(2).replace(/\.?0+e/, "e").replace("e+", "e");
  return String(Number(value.toPrecision(4)));
}

function ticks(low, high, about) {
  const rough = (high - low) / about, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => power * factor).find((size) => size >= rough * 0.999), found = [];
  for (let i = Math.ceil(low / step - 1e-9); i <= Math.floor(high / step + 1e-9); i++)
    found.push(Number((i * step).toPrecision(12)));
  return found;
}

function valueTicks({ log, y: [low, high] }) {
  if (!log) return ticks(low, high, 5);
  if (high - low < 0.7) return ticks(10 ** low, 10 ** high, 5);
  const found = [], every = Math.max(1, Math.floor((high - low) / 6));
  for (let decade = Math.floor(low); decade <= high; decade += every)
    for (const factor of high - low < 2.5 ? [1, 2, 5] : [1]) found.push(factor * 10 ** decade);
  return found.filter((value) => Math.log10(value) >= low && Math.log10(value) <= high);
}

function legend(names) {
  return make("ul", { class: "legend" }, Object.entries(names).map(([group, name]) =>
    make("li", { class: `key ${colour(Number(group))}`, "data-group": group }, name)));
}

const namesOf = (data) => Object.fromEntries(
  data.curves.filter((curve) => !curve.faint).map((curve) => [curve.colour, curve.label]).reverse());

function spanOf(shown) {
  const ends = shown.flatMap((data) => data.curves.flatMap(({ steps }) => [steps[0], steps.at(-1)]));
  const least = Math.min(...ends), last = Math.max(...ends), first = least > 0 && least < 0.2 * last ? 0 : least;
  return first < last ? [first, last] : [first - 1, last + 1];
}

function heights(chart, isWhole) {
  const { data, x: [first, last] } = chart, values = isWhole ? Object.values(data.levels) : [];
  for (const { steps, values: own, band } of data.curves) steps.forEach((x, i) => {
    if (x >= first && x <= last) values.push(own[i], ...(band ? [band[0][i], band[1][i]] : []));
  });
  const ends = (list) => list.reduce(([low, high], v) => [Math.min(low, v), Math.max(high, v)], [Infinity, -Infinity]);
  let [low, high] = ends(values.filter((v) => v !== null && !(chart.log && v <= 0)));
  if (low > high) [low, high] = chart.log ? [1, 10] : [0, 1];
  const isPositive = low >= 0;
  if (isWhole) chart.log = !data.from_zero && low > 0 && Math.log10(high) - Math.log10(low) > 2;
  if (chart.log) [low, high] = [Math.log10(low), Math.log10(high)];
  const size = Math.max(Math.abs(low), Math.abs(high));
  const room = high - low > 1e-9 * size ? (high - low) * 0.06 : size * 0.1 || 1;
  const bottom = data.from_zero && isWhole && isPositive ? 0 : low - room;
  return [bottom, Math.min(high + Math.max(room, (high - bottom) * 0.06), data.highest ?? Infinity)];
}

function redraw(chart) {
  const { data, svg } = chart, [first, last] = chart.x, [low, high] = chart.y;
  const wide = chart.plot.clientWidth || 600, tall = data.wide && wide > 500 ? 340 : 240;
  const right = wide - RIGHT, bottom = tall - BOTTOM, isZoomed = chart.x !== chart.whole;
  chart.across = (x) => LEFT + (x - first) / (last - first) * (right - LEFT);
  const scaled = (value) => (chart.log ? (value > 0 ? Math.log10(value) : NaN) : value);
  const down = (value) => TOP + (high - scaled(value)) / (high - low) * (bottom - TOP);
  const at = (x, value) => `${chart.across(x).toFixed(1)} ${down(value).toFixed(1)}`;
  const isShown = (value) => value !== null && Number.isFinite(scaled(value));
  const inside = [], names = [], rows = valueTicks(chart);
  const level = (y, kind) => draw("path", { class: kind, d: `M${LEFT} ${y.toFixed(1)}H${right}` });
  data.spans.forEach(([name, from, to], i) => {
    const [start, end] = [from, to].map((step) => chart.across(Math.min(last, Math.max(first, step))));
    if (start >= end) return;
    if (i % 2) inside.push(draw("rect", { class: "phase", x: start, y: TOP, width: end - start, height: bottom - TOP }));
    names.push(draw("svg", { x: start, width: end - start, height: tall },
      draw("text", { class: "phase-name", x: 4, y: TOP - 4 }, draw("title", {}, name), name)));
  });
  inside.push(...rows.map((value) => level(down(value), "grid")));
  const crossed = (from, to, y) => data.curves.filter(({ steps, values }) => steps.some((step, i) => {  // by curves' points, and by lines between
    const x = chart.across(step), before = i && isShown(values[i - 1]) ? i - 1 : i;
    if (!isShown(values[i]) || x < from || chart.across(steps[before]) > to) return false;
    const start = chart.across(steps[before]), at = (place) => down(values[before]) +
      (x > start ? (Math.min(x, Math.max(start, place)) - start) / (x - start) : 1) * (down(values[i]) - down(values[before]));
    return Math.min(at(from), at(to)) < y + 4 && Math.max(at(from), at(to)) > y - 11;
  })).length;
  let above = -Infinity;
  for (const [name, value] of Object.entries(data.levels).sort((a, b) => b[1] - a[1])) {
    const y = down(value);
    if (!(y >= TOP && y <= bottom)) continue;
    inside.push(level(y, "level"));
    const text = value ? `${name} ${value.toFixed(3)}` : name, long = 6.2 * text.length;
    const places = [right, LEFT].flatMap((x) => (y - above < 18 ? [y + 13] : [y - 5, y + 13]).map((base) => ({ x, base })));
    const crossings = places.map(({ x, base }) => (base > bottom + 2 ? Infinity : x === LEFT ? crossed(x, x + long, base) : crossed(x - long, x, base)));
    const { x, base } = places[crossings.indexOf(Math.min(...crossings))];
    names.push(draw("text", { class: x === LEFT ? "level-name left" : "level-name", x, y: base }, text));
    above = Math.max(y, base);
  }
  for (const curve of [...data.curves].sort((a, b) => b.faint - a.faint)) {
    const marks = { "data-group": curve.colour, "data-run": curve.run }, { steps, values, band } = curve;
    const kind = (name) => `${name} ${colour(curve.colour)}${curve.faint ? " faint" : ""}`;
    const known = steps.map((_, i) => i).filter((i) => isShown(values[i]));
    if (band) inside.push(draw("path", { ...marks, class: kind("spread"), d: "M" + [
      ...steps.map((x, i) => at(x, band[0][i])), ...steps.map((x, i) => at(x, band[1][i])).reverse()].join("L") + "z" }));
    const line = known.map((i) => (isShown(values[i - 1] ?? null) ? "L" : "M") + at(steps[i], values[i])).join("");
    if (!curve.loose) inside.push(draw("path", { ...marks, class: kind("line"), d: line }));
    if (curve.dots || curve.loose) inside.push(draw("path", { ...marks, class: kind("dots"), d: known.map((i) => `M${at(steps[i], values[i])}h0`).join("") }));
  }
  let end = -Infinity;
  const columns = chart.named ?? ticks(first, last, wide < 420 ? 4 : 6)
    .filter((step) => step >= 0 && Number.isInteger(step)).map((step) => [step, label(step)]);
  for (const [x, text] of columns) {
    const half = Math.max(14, 3.3 * text.length), at = Math.min(chart.across(x), wide - half);
    if (at - half < end + 6) continue;
    names.push(draw("text", { class: "tick x", x: at, y: tall - 8 }, text));
    end = at + half;
  }
  names.push(...rows.map((value) => draw("text", { class: "tick y", x: LEFT - 9, y: down(value) + 4 }, label(value))));
  if (!chart.named) names.push(draw("text", { class: "tick", x: 2, y: tall - 8 }, data.across));
  const area = { x: LEFT, y: TOP, width: right - LEFT, height: bottom - TOP };
  chart.cursor = draw("path", { class: "cursor", hidden: true });
  chart.band = draw("rect", { class: "band", ...area, width: 0 });
  chart.area = draw("rect", { class: "area", ...area });
  svg.setAttribute("viewBox", `0 0 ${wide} ${tall}`);
  const lines = isZoomed ? draw("svg", { ...area, viewBox: Object.values(area).join(" ") }, inside) : draw("g", {}, inside);
  svg.replaceChildren(lines, ...names, chart.cursor, chart.band, chart.area);
}

function zoomAll(range) {
  for (const chart of charts.filter((one) => !one.named)) {
    const [first, last] = chart.whole;
    const inside = range && range[0] < last && range[1] > first && range[1] - range[0] >= 1;
    chart.x = inside ? range : chart.whole;
    chart.y = heights(chart, !inside);
    chart.reset.hidden = !inside;
    clear(chart);
    redraw(chart);
  }
}

function clear(chart) {
  chart.cursor.setAttribute("hidden", "");
  chart.tip.hidden = true;
}

function nearest(xs, x) {
  let low = 0, high = xs.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] < x) low = middle; else high = middle;
  }
  return Math.abs(xs[low] - x) <= Math.abs(xs[high] - x) ? low : high;
}

const stepAt = (chart, share) => chart.x[0] + share * (chart.x[1] - chart.x[0]);

function read(chart, share) {
  const wanted = stepAt(chart, share), [first, last] = chart.x;
  const place = (x) => chart.named?.find(([at]) => at === x)?.[1] ?? x.toLocaleString("en-US");
  const points = chart.data.curves.filter((curve) => !curve.faint).map((curve) => {
    const i = nearest(curve.steps, wanted);
    return { curve, x: curve.steps[i], y: curve.values[i] };
  }).filter((point) => point.x >= first && point.x <= last);
  if (!points.length) return clear(chart);
  const near = points.reduce((a, b) => (Math.abs(b.x - wanted) < Math.abs(a.x - wanted) ? b : a));
  const rows = points.sort((a, b) => b.y - a.y).slice(0, 14).map(({ curve, x, y }) =>
    make("div", { class: colour(curve.colour) }, make("span", {}, curve.label + (x === near.x ? "" : ` @${place(x)}`)),
      make("span", {}, y === null ? "not a number" : String(Number(y.toPrecision(4))))));
  chart.tip.replaceChildren(make("b", {}, `${chart.data.across} ${place(near.x)}`), ...rows);
  const x = chart.across(near.x), wide = chart.svg.viewBox.baseVal.width, isRight = x > 0.55 * wide;
  chart.cursor.setAttribute("d", `M${x} ${TOP}V${chart.svg.viewBox.baseVal.height - BOTTOM}`);
  chart.cursor.removeAttribute("hidden");
  chart.tip.style.left = isRight ? "auto" : `calc(${100 * x / wide}% + 10px)`;
  chart.tip.style.right = isRight ? `calc(${100 - 100 * x / wide}% + 10px)` : "auto";
  chart.tip.hidden = false;
}

function listen(chart) {
  const { plot, svg } = chart;
  let from = null, key = 0.5;
  const at = (event) => {
    const box = chart.area.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
  };
  svg.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "mouse" && event.button === 0 && !chart.named) {
      from = at(event);
      svg.setPointerCapture(event.pointerId);
      event.preventDefault();
    } else read(chart, at(event));
  });
  svg.addEventListener("pointermove", (event) => {
    const here = at(event), { x, width } = chart.area;
    read(chart, here);
    if (from === null) return;
    chart.band.setAttribute("x", x.baseVal.value + Math.min(from, here) * width.baseVal.value);
    chart.band.setAttribute("width", Math.abs(here - from) * width.baseVal.value);
  });
  svg.addEventListener("pointerup", (event) => {
    const here = at(event), start = from;
    from = null;
    chart.band.setAttribute("width", 0);
    if (start !== null && Math.abs(here - start) > 0.01)
      zoomAll([stepAt(chart, Math.min(start, here)), stepAt(chart, Math.max(start, here))]);
  });
  svg.addEventListener("pointerleave", () => { if (from === null) clear(chart); });
  svg.addEventListener("dblclick", () => zoomAll(null));
  chart.reset.addEventListener("click", () => zoomAll(null));
  chart.picture.addEventListener("click", () => save(chart));
  plot.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { clear(chart); zoomAll(null); }
    if (!event.key.match(/^Arrow(Left|Right)$/)) return;
    event.preventDefault();
    key = Math.min(1, Math.max(0, key + (event.key === "ArrowLeft" ? -0.02 : 0.02)));
    read(chart, key);
  });
  plot.addEventListener("blur", () => clear(chart));
  new ResizeObserver(() => redraw(chart)).observe(plot);
}

function spoken(data) {
  const ends = data.curves.filter((curve) => !curve.faint).map((curve) => [curve.label, curve.values.filter((v) => v !== null)])
    .filter(([, values]) => values.length).map(([name, v]) => `${name} from ${figure(v[0])} to ${figure(v.at(-1))}`);
  return `${data.title} over ${Object.keys(data.ticks).length ? data.across : `the ${data.across}s`}: ${ends.join("; ")}`;
}

function chartOf(data, whole, isNamed = true) {
  const named = Object.entries(data.ticks).map(([at, value]) => [Number(at), label(value)]).sort((a, b) => a[0] - b[0]);
  const chart = { data, whole, x: whole, named: named.length ? named : null, svg: draw("svg", { "aria-hidden": "true" }),
    tip: make("div", { class: "tip", hidden: true }), reset: make("button", { type: "button", hidden: true }, "whole run"),
    picture: make("button", { type: "button", title: `${data.title}: save the picture` }, "svg") };
  chart.y = heights(chart, true);
  chart.plot = make("div", { class: "plot", tabindex: "0", role: "img", "aria-label": spoken(data) }, chart.svg, chart.tip);
  const unit = [data.unit, chart.log && "log scale"].filter(Boolean).join(" · "), names = namesOf(data);
  const hasLegend = isNamed && (Object.keys(names).length > 1 || data.curves.some((curve) => curve.faint));
  const shown = make("figure", { class: "chart" + (data.wide ? " wide" : "") },
    make("figcaption", {}, make("h3", {}, data.title), make("span", { class: "unit" }, unit), chart.reset, chart.picture),
    hasLegend && legend(names), chart.plot, data.note && make("p", { class: "note" }, data.note));
  charts.push(chart);
  redraw(chart);
  listen(chart);
  return shown;
}

function save(chart) {
  clear(chart);
  const all = (svg) => [svg, ...svg.querySelectorAll("*")], picture = chart.svg.cloneNode(true), shown = all(chart.svg);
  all(picture).forEach((part, i) => {
    const style = getComputedStyle(shown[i]);
    for (const name of LOOKS) part.style.setProperty(name, style.getPropertyValue(name));
  });
  const { width, height } = chart.svg.viewBox.baseVal, page = getComputedStyle(document.documentElement);
  const [ink, ground] = ["--ink", "--panel"].map((name) => page.getPropertyValue(name));
  const lines = [[chart.data.title, ink], ...Object.entries(namesOf(chart.data)).map(([group, name]) =>
    [name, page.getPropertyValue(`--c${group % COLOURS}`)])];
  const tall = height + 18 * lines.length + 8;
  picture.append(...lines.map(([text, fill], i) => draw("text", { x: LEFT, y: height + 18 * (i + 1), fill, "font-size": 13,
    "font-family": page.fontFamily || "sans-serif" }, text)));
  picture.prepend(draw("rect", { width, height: tall, fill: ground }));
  for (const [name, value] of Object.entries({ xmlns: SVG, width, height: tall, viewBox: `0 0 ${width} ${tall}` }))
    picture.setAttribute(name, value);
  const file = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(picture)], { type: "image/svg+xml" }));
  make("a", { href: file, download: `${chart.data.title.toLowerCase().replace(/\W+/g, "-")}.svg` }).click();
  setTimeout(() => URL.revokeObjectURL(file), 10000);
}
