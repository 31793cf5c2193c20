"use strict";
(() => {
  const SCALE = 10000;
  const charts = [...document.querySelectorAll("figure.chart")].map(setUp);

  function setUp(figure) {
    const find = (name) => figure.querySelector(name);
    const chart = { figure, data: JSON.parse(find("script").textContent), area: find(".area"), svg: find("svg"),
      grid: find(".grid"), xs: find(".xs"), ys: find(".ys"), cursor: find(".cursor"), band: find(".band"),
      tip: find(".tip"), reset: find(".reset") };
    chart.all = { x: chart.data.x, y: chart.data.y };
    chart.view = chart.all;
    listen(chart);
    return chart;
  }

  function listen(chart) {
    const { area } = chart;
    let from = null;
    const at = (event) => {
      const box = area.getBoundingClientRect();
      return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    };
    area.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "mouse" && event.button === 0 && !chart.data.ticks) {
        from = at(event);
        area.setPointerCapture(event.pointerId);
        event.preventDefault();
      } else read(chart, at(event));
    });
    area.addEventListener("pointermove", (event) => {
      const here = at(event);
      read(chart, here);
      if (from === null) return;
      chart.band.hidden = Math.abs(here - from) < 0.01;
      chart.band.style.left = 100 * Math.min(from, here) + "%";
      chart.band.style.width = 100 * Math.abs(here - from) + "%";
    });
    area.addEventListener("pointerup", (event) => {
      const here = at(event), start = from;
      from = null;
      chart.band.hidden = true;
      if (start !== null && Math.abs(here - start) > 0.01)
        zoomAll([stepAt(chart, Math.min(start, here)), stepAt(chart, Math.max(start, here))]);
    });
    area.addEventListener("pointerleave", () => { if (from === null) clear(chart); });
    area.addEventListener("dblclick", () => zoomAll(null));
    chart.reset.addEventListener("click", () => zoomAll(null));
    chart.figure.querySelector(".plot").addEventListener("keydown", (event) => {
      const move = { ArrowLeft: -0.02, ArrowRight: 0.02 }[event.key];
      if (event.key === "Escape") { clear(chart); zoomAll(null); }
      if (move === undefined) return;
      event.preventDefault();
      chart.key = Math.min(1, Math.max(0, (chart.key ?? 0.5) + move));
      read(chart, chart.key);
    });
    chart.figure.querySelector(".plot").addEventListener("blur", () => clear(chart));
  }

  const stepAt = (chart, share) => chart.view.x[0] + share * (chart.view.x[1] - chart.view.x[0]);
  const scaled = (chart, value) => (chart.data.log ? Math.log10(value) : value);
  const downOf = (chart, height) => (chart.data.y[1] - height) / (chart.data.y[1] - chart.data.y[0]) * SCALE;
  const acrossOf = (chart, step) => (step - chart.data.x[0]) / (chart.data.x[1] - chart.data.x[0]) * SCALE;

  function clear(chart) {
    chart.cursor.hidden = chart.tip.hidden = true;
  }

  function nearest(xs, x) {
    let low = 0, high = xs.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (xs[middle] < x) low = middle; else high = middle;
    }
    return Math.abs(xs[low] - x) <= Math.abs(xs[high] - x) ? low : high;
  }

  function read(chart, share) {
    const wanted = stepAt(chart, share), [first, last] = chart.view.x;
    const points = chart.data.curves.filter((curve) => !curve.faint).map((curve) => {
      const i = nearest(curve.x, wanted);
      return { curve, x: curve.x[i], y: curve.y[i] };
    }).filter((point) => point.x >= first && point.x <= last);
    if (!points.length) return clear(chart);
    const near = points.reduce((a, b) => (Math.abs(b.x - wanted) < Math.abs(a.x - wanted) ? b : a));
    const head = document.createElement("b");
    head.textContent = chart.data.across + " " + placeName(chart, near.x);
    const rows = points.sort((a, b) => b.y - a.y).slice(0, 14).map((point) => {
      const [row, name, value] = ["div", "span", "span"].map((kind) => document.createElement(kind));
      row.className = point.curve.colour;
      name.textContent = point.curve.name + (point.x === near.x ? "" : " @" + placeName(chart, point.x));
      value.textContent = figure(point.y);
      row.append(name, value);
      return row;
    });
    chart.tip.replaceChildren(head, ...rows);
    const place = (near.x - first) / (last - first) * 100;
    chart.cursor.style.left = place + "%";
    chart.tip.style.left = place > 55 ? "auto" : `calc(${place}% + 10px)`;
    chart.tip.style.right = place > 55 ? `calc(${100 - place}% + 10px)` : "auto";
    chart.cursor.hidden = chart.tip.hidden = false;
  }

  function placeName(chart, x) {
    const named = (chart.data.ticks ?? []).find(([at]) => at === x);
    return named ? named[1] : x.toLocaleString("en-US");
  }

  function figure(value) {
    if (value === null) return "not a number";
    const size = Math.abs(value);
    if (size >= 1000) return value.toLocaleString("en-US", { maximumFractionDigits: 0 });
    if (size && size < 0.001) return value.toExponential(2);
    return String(Number(value.toPrecision(4)));
  }

  function zoomAll(range) {
    for (const chart of charts.filter((one) => !one.data.ticks)) {
      const [first, last] = chart.all.x;
      const inside = range && range[0] < last && range[1] > first && range[1] - range[0] >= 1;
      chart.view = inside ? { x: range, y: heights(chart, range) } : chart.all;
      chart.figure.classList.toggle("zoomed", Boolean(inside));
      chart.reset.hidden = !inside;
      clear(chart);
      redraw(chart);
    }
  }

  function heights(chart, [first, last]) {
    let low = Infinity, high = -Infinity;
    for (const curve of chart.data.curves) curve.x.forEach((x, i) => {
      if (x < first || x > last || curve.y[i] === null || (chart.data.log && curve.y[i] <= 0)) return;
      const height = scaled(chart, curve.y[i]);
      low = Math.min(low, height);
      high = Math.max(high, height);
    });
    if (low > high) return chart.all.y;
    const size = Math.max(Math.abs(low), Math.abs(high));
    const room = high - low > 1e-9 * size ? (high - low) * 0.06 : size * 0.1 || 1;
    return [low - room, high + room];
  }

  function redraw(chart) {
    const { x, y } = chart.view, top = downOf(chart, y[1]), tall = downOf(chart, y[0]) - top;
    const left = acrossOf(chart, x[0]);
    chart.svg.setAttribute("viewBox", `${left} ${top} ${acrossOf(chart, x[1]) - left} ${tall}`);
    const share = (height) => (y[1] - height) / (y[1] - y[0]) * 100;
    const rows = valueTicks(chart).map((value) => [value, share(scaled(chart, value))]);
    chart.ys.replaceChildren(...rows.map(([value, at]) => tick(value, "top", at)));
    chart.xs.replaceChildren(...ticks(x[0], x[1], 5).filter((step) => step >= 0 && Number.isInteger(step))
      .map((step) => tick(step, "left", (step - x[0]) / (x[1] - x[0]) * 100)));
    chart.grid.replaceChildren(...rows.map(([, at]) => {
      const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
      path.setAttribute("d", `M0 ${top + at / 100 * tall}h${SCALE}`);
      return path;
    }));
    for (const name of chart.area.querySelectorAll(".phase-name")) {
      const [from, to] = name.dataset.x.split(",").map((step) =>
        Math.min(100, Math.max(0, (step - x[0]) / (x[1] - x[0]) * 100)));
      name.style.left = from + "%";
      name.style.width = to - from + "%";
    }
    for (const name of chart.area.querySelectorAll(".level-name")) {
      const at = share(scaled(chart, Number(name.dataset.y)));
      name.style.top = at + "%";
      name.hidden = at < 0 || at > 100;
    }
  }

  function tick(value, side, at) {
    const span = document.createElement("span");
    span.className = "tick" + (side === "left" && at > 96 ? " end" : "");
    span.style[side] = at + "%";
    span.textContent = label(value);
    return span;
  }

  function ticks(low, high, about) {
    const rough = (high - low) / about, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => power * factor).find((size) => size >= rough * 0.999);
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9); i <= Math.floor(high / step + 1e-9); i++)
      found.push(Number((i * step).toPrecision(12)));
    return found;
  }

  function valueTicks(chart) {
    const [low, high] = chart.view.y;
    if (!chart.data.log) return ticks(low, high, 5);
    if (high - low < 0.7) return ticks(10 ** low, 10 ** high, 5);
    const found = [], every = Math.max(1, Math.floor((high - low) / 6));
    for (let decade = Math.floor(low); decade <= high; decade += every)
      for (const factor of high - low < 2.5 ? [1, 2, 5] : [1]) found.push(factor * 10 ** decade);
    return found.filter((value) => Math.log10(value) >= low && Math.log10(value) <= high);
  }

  function label(value) {
    const size = Math.abs(value);
    if (size >= 1e10) return value.toExponential(1).replace("e+", "e");
    if (size >= 1e6) return Number((value / 1e6).toPrecision(4)) + "M";
    if (size >= 1000) return value.toLocaleString("en-US", { maximumFractionDigits: 0 });
    if (size && size < 0.0095) return value.toExponential(2).replace(/\.?0+e/, "e").replace("e+", "e");
    return String(Number(value.toPrecision(4)));
  }

  for (const source of document.querySelectorAll("li[data-group], tr[data-run], tr[data-group]")) {
    const name = "run" in source.dataset ? "run" : "group";
    const own = charts.find((chart) => chart.data.ticks && chart.figure.contains(source));
    const reached = own ? [own] : charts.filter((chart) => !chart.data.ticks);
    const light = (on) => reached.forEach((chart) => {
      chart.svg.classList.toggle("lit-one", on);
      for (const path of chart.svg.querySelectorAll("path[data-run]"))
        path.classList.toggle("lit", on && path.dataset[name] === source.dataset[name]);
    });
    source.addEventListener("pointerenter", () => light(true));
    source.addEventListener("pointerleave", () => light(false));
  }

  for (const button of document.querySelectorAll("th button")) button.addEventListener("click", () => {
    const head = button.closest("th"), body = head.closest("table").tBodies[0];
    const column = [...head.parentNode.children].indexOf(head);
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const value = (row) => row.children[column].dataset.value ?? row.children[column].textContent;
    const order = (a, b) => {
      const [left, right] = [value(a), value(b)], [x, y] = [Number(left), Number(right)];
      if (left === "" || right === "") return (left === "") - (right === "");
      const least = Number.isNaN(x) || Number.isNaN(y) ? left.localeCompare(right, "en", { numeric: true }) : x - y;
      return up ? least : -least;
    };
    body.append(...[...body.rows].sort(order));
  });

  for (const box of document.querySelectorAll(".browse")) {
    const [words, only] = box.querySelectorAll("input"), rows = [...box.querySelector("tbody").rows];
    const update = () => {
      const wanted = words.value.toLowerCase();
      for (const row of rows)
        row.hidden = (only?.checked && row.className !== "wrong") || !row.textContent.toLowerCase().includes(wanted);
      const left = rows.filter((row) => !row.hidden).length;
      box.querySelector("output").textContent = left.toLocaleString("en-US") + " shown";
    };
    words.addEventListener("input", update);
    only?.addEventListener("change", update);
  }

  addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details")) part.open = true;
  });
})();
