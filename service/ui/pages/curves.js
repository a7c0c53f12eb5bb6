// The curves of one or several runs, in sections by the prefix of their names.
import {Chart, colourOf, oddOf, smoothed, zoomOut} from "./chart.js";
import {CurveStore} from "./curve_store.js";
import {fileKey} from "./data.js";
import {fill, h} from "./dom.js";
import {isInner} from "./format.js";
import {nameOf} from "./run.js";

const statistic = /^rank_(mean|min|max|std|argmin|argmax)\//;
const sectionOf = (name) => (name.includes("/") ? name.slice(0, name.indexOf("/")) : "metrics");
const isLoss = (name) => name.toLowerCase().includes("loss");

function stored(key, otherwise) {
  try { return JSON.parse(localStorage.getItem(key)) ?? otherwise; } catch { return otherwise; }
}
function store(key, value) {
  try { localStorage.setItem(key, JSON.stringify(value)); } catch { /* a private window keeps nothing */ }
}

/** The metrics to draw, in sections: the pinned ones, those with losses, the others. */
export function sectionsOf(names, pinned) {
  const sections = new Map([["pinned", names.filter((name) => pinned.includes(name))]]);
  for (const name of names) sections.set(sectionOf(name), [...(sections.get(sectionOf(name)) || []), name]);
  const lossFirst = (a, b) => isLoss(b) - isLoss(a);
  return [...sections].filter(([, members]) => members.length > 0)
    .map(([title, members]) => [title, [...members].sort(lossFirst)])
    .sort(([a, m], [b, n]) => (b === "pinned") - (a === "pinned") || n.some(isLoss) - m.some(isLoss));
}

export async function showCurves(page, runs) {
  const view = {
    filter: page.options.get("filter") || "",
    smooth: Number(page.options.get("smooth") || 0),
    log: page.options.get("log") === "1",
    x: page.options.get("x") || "step",
  };
  const pins = `ranklog pins ${runs[0].project}`;
  let pinned = stored(pins, []);
  const curves = new CurveStore(runs);
  const all = new Set();
  let definitions = new Map();
  const learn = (list) => {
    const before = all.size;
    for (const run of list) {
      for (const metric of run.metrics) {
        definitions.set(metric.name, metric);
        if (!statistic.test(metric.name) && !isInner(metric.name) && !metric.hidden) all.add(metric.name);
      }
    }
    for (const name of curves.more) {
      definitions.set(name, {name});
      all.add(name);
    }
    return all.size > before;
  };
  learn(runs);
  if (all.size === 0) await curves.learn();
  learn(runs);

  const steps = [...new Set([...definitions.values()].map((metric) => metric.step_metric).filter(Boolean))];
  const filter = h("input", {type: "search", placeholder: "filter  (/)", value: view.filter, "aria-label": "Filter the charts"});
  const smooth = h("input", {type: "range", min: 0, max: 0.99, step: 0.01, value: view.smooth, "aria-label": "Smoothing"});
  const log = h("input", {type: "checkbox", checked: view.log});
  const axis = h("select", {"aria-label": "X axis"}, ["step", "time", "minutes", ...steps].map((x) => h("option", {value: x, selected: x === view.x}, x)));
  const note = h("span", {class: "faint", role: "status"});
  const body = h("div", {});
  fill(page.element, h("div", {class: "tools"}, filter,
    h("label", {}, "smooth ", smooth), h("label", {}, log, " log"), h("label", {}, "x ", axis), zoomOut, note), body);

  const charts = new Map();  // by metric
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const chart = entry.target.chart;
      chart.seen = entry.isIntersecting;
    }
    load();
  }, {rootMargin: "400px"});

  const draw = (name) => {
    const chart = charts.get(name);
    if (!chart || !chart.seen) return;
    const {lines, bands} = linesOf(name);
    chart.options.log = view.log && isForLog(lines);
    if (chart.options.log) for (const line of lines) line.y = line.y.map((y) => (y > 0 ? y : null));
    chart.options.time = view.x === "time";
    chart.options.axis = view.x;
    chart.set(lines, bands);
  };

  function linesOf(name) {
    const lines = [], bands = [];
    const add = (line, curve, run) => {
      const x = xOf(curve, run);
      if (x) lines.push({...line, ...x});
      return Boolean(x);
    };
    runs.forEach((run, i) => {
      const curve = curves.of(run.key, name);
      if (!curve) return;
      const colour = colourOf(i);
      const [high, low, mean] = ["max", "min", "mean"].map((kind) => curves.of(run.key, `rank_${kind}/${name}`));
      if (runs.length === 1 && high && low) {
        const from = lines.length;
        add({label: "max", colour: `${colour}55`, width: 0.5, fill: `${colour}26`, quiet: true}, high, run);
        add({label: "min", colour: `${colour}55`, width: 0.5, quiet: true}, low, run);
        bands.push([from, from + 1]);
        if (mean) add({label: "mean of ranks", colour: colourOf(4), width: 1.2}, smoothCurve(mean), run);
      }
      if (view.smooth > 0) add({label: "", colour: `${colour}44`, width: 1, quiet: true}, curve, run);
      add({label: runs.length > 1 ? nameOf(run) : high ? `rank ${run.primary_rank}` : "", colour}, smoothCurve(curve), run);
    });
    return {lines, bands};
  }
  const smoothCurve = (curve) => ({...curve, v: smoothed(curve.v, view.smooth)});

  // The points of a curve over the chosen x, ascending: {x, y, odd}, or null.
  function xOf(curve, run) {
    const other = curves.of(run.key, view.x);
    const over = new Map([
      ["step", ({x}) => x],
      ["time", ({t}) => t],
      ["minutes", ({t}) => t.map((each) => (each - run.started) / 60)],
    ]).get(view.x) || (other && (({x}) => x.map((step) => between(other, step))));
    if (!over) return null;
    const odd = curve.not_finite && oddOf(curve, over(curve.not_finite));
    return view.x === "step" ? {x: curve.x, y: curve.v, odd} : {...ascending(over(curve), curve.v), odd};
  }

  let loading = false;
  async function load() {
    if (loading) return;
    loading = true;
    try {
      // Until nothing new is visible.
      while (page.isCurrent()) {
        const seen = [...charts].filter(([, chart]) => chart.seen).map(([name]) => name);
        const wanted = seen.flatMap((name) => [name, `rank_max/${name}`, `rank_min/${name}`, `rank_mean/${name}`])
          .concat(steps.includes(view.x) ? [view.x] : []).filter((name) => definitions.has(name));
        const changed = await curves.load(wanted);
        if (!page.isCurrent()) return;
        if (curves.more.size > 0 && learn(runs)) { layOut(); continue; }
        for (const name of seen) if (changed || !charts.get(name).lines) draw(name);
        note.textContent = curves.complete ? "" : "a sample of the rows; reading all of them ...";
        if (!changed && curves.complete) break;
      }
    } catch (error) {
      note.textContent = `cannot read the curves: ${error.message}`;
    } finally {
      loading = false;
    }
  }

  function layOut() {
    for (const chart of charts.values()) { observer.unobserve(chart.element); chart.destroy(); }
    charts.clear();
    const words = view.filter.toLowerCase().split(/\s+/).filter(Boolean);
    const names = [...all].filter((name) => words.every((word) => name.toLowerCase().includes(word)));
    fill(body, names.length === 0 && h("p", {}, all.size === 0 ? "No metric yet." : "No metric matches."),
      sectionsOf(names, pinned).map(([title, members]) => h("details", {open: true, class: "section"},
        h("summary", {}, title, h("span", {class: "faint"}, ` ${members.length}`)),
        h("div", {class: "charts"}, members.filter((name) => title === "pinned" || !pinned.includes(name)).map((name) => {
          const on = pinned.includes(name);
          const pin = !fileKey && h("button", {type: "button", class: "pin", "aria-pressed": String(on), title: on ? "Unpin" : "Pin", onclick: () => {
            pinned = on ? pinned.filter((each) => each !== name) : [...pinned, name];
            store(pins, pinned);
            layOut();
          }}, on ? "★" : "☆");
          const chart = new Chart({title: name, group: "steps", buttons: pin});
          charts.set(name, chart);
          observer.observe(chart.element);
          return chart.element;
        })))));
  }

  const remember = () => {
    const options = new URLSearchParams();
    if (view.filter) options.set("filter", view.filter);
    if (view.smooth) options.set("smooth", view.smooth);
    if (view.log) options.set("log", "1");
    if (view.x !== "step") options.set("x", view.x);
    if (!fileKey) history.replaceState(null, "", `#/run/${runs.map((run) => run.key).join(",")}/curves${String(options) && "?"}${options}`);
  };
  const redraw = () => { remember(); for (const name of charts.keys()) draw(name); load(); };
  filter.addEventListener("input", () => { view.filter = filter.value; remember(); layOut(); });
  smooth.addEventListener("input", () => { view.smooth = Number(smooth.value); redraw(); });
  log.addEventListener("change", () => { view.log = log.checked; redraw(); });
  axis.addEventListener("change", () => { view.x = axis.value; redraw(); });
  page.onLeave(() => { observer.disconnect(); for (const chart of charts.values()) chart.destroy(); });
  layOut();
  return async (now) => {
    runs = now;
    curves.stale(now);
    if (learn(now)) layOut();
    await load();
  };
}

/** The value of a curve at a step, between its points. */
export function between(curve, step) {
  const {x, v} = curve;
  let low = 0, high = x.length - 1;
  if (high < 0) return null;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle] < step) low = middle + 1;
    else high = middle;
  }
  if (low === 0 || x[low] <= step) return v[low];
  if (v[low - 1] === null || v[low] === null) return v[low - 1];
  return v[low - 1] + (v[low] - v[low - 1]) * (step - x[low - 1]) / (x[low] - x[low - 1]);
}

/** Whether a logarithmic axis shows nearly all values: a learning rate of 0 at the first step may be absent. */
function isForLog(lines) {
  const all = lines.flatMap((line) => line.y).filter((y) => y !== null);
  return all.length > 0 && all.filter((y) => y > 0).length >= 0.9 * all.length;
}

/** As uPlot wants them: x ascends. */
function ascending(x, y) {
  const order = x.map((_, i) => i).filter((i) => x[i] !== null);
  order.sort((a, b) => x[a] - x[b]);
  return {x: order.map((i) => x[i]), y: order.map((i) => y[i])};
}
