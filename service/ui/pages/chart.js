// One chart: curves with optional bands, a legend, a zoom that all charts of a page share, and a table
// for screen readers.
import {h, tableOf} from "./dom.js";
import {numberText, timeText} from "./format.js";

// Okabe and Ito's colours, which the colour-blind tell apart; the page's theme makes them readable.
const colours = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#a6761d"];
const dark = matchMedia("(prefers-color-scheme: dark)");
const brighter = {"#0072b2": "#4ba3e3", "#a6761d": "#cfa24b"};

export function colourOf(index) {
  const colour = colours[index % colours.length];
  return dark.matches ? brighter[colour] || colour : colour;
}

export function cssColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

const charts = new Set();
let zooming = false;

/** For the tools of a view; visible while its charts are zoomed. A touch screen has no Esc. */
export const zoomOut = h("button", {type: "button", hidden: true, title: "Zoom out (Esc)", onclick: () => document.dispatchEvent(new CustomEvent("zoomout"))}, "zoom out");

function zoomAll(from, min, max) {
  if (zooming) return;
  zoomOut.hidden = min === null;
  zooming = true;
  for (const chart of charts) {
    if (chart !== from && chart.plot && chart.group === from.group) chart.zoom(min, max);
  }
  zooming = false;
}
document.addEventListener("zoomout", () => {
  for (const chart of charts) chart.zoom(null, null);
  zoomOut.hidden = true;
});

/** An exponential moving average that does not depend on the spacing of the points. */
export function smoothed(values, weight) {
  if (!weight) return values;
  let mean = 0, norm = 0;
  return values.map((value) => {
    if (value === null) return null;  // a gap
    mean = mean * weight + value * (1 - weight);
    norm = norm * weight + (1 - weight);
    return mean / norm;
  });
}

export class Chart {
  /**
   * options: {title, unit, group (charts that zoom together), time (x is a time), log, height, buttons}
   * Call set() to draw.
   */
  constructor(options) {
    this.options = options;
    this.group = options.group || "steps";
    this.min = this.max = null;
    this.large = false;
    this.size = h("button", {type: "button", class: "size", "aria-pressed": "false", title: "Enlarge (Enter)", onclick: () => this.enlarge()}, "⤢");
    this.holder = h("div", {class: "plot"});
    this.values = h("p", {class: "legend", "aria-hidden": "true"});
    this.rows = h("details", {class: "values"}, h("summary", {}, "values"));
    this.rows.addEventListener("toggle", () => this.fillTable());
    this.element = h("figure", {class: "chart", "data-move": true, tabindex: "-1", "data-title": options.title},
      h("figcaption", {}, h("span", {}, options.title, options.unit && h("span", {class: "faint"}, ` ${options.unit}`)), h("span", {class: "buttons"}, this.size, options.buttons)), this.holder, this.values, this.rows);
    this.element.chart = this;  // tests read the points of a chart here
    this.seen = false;
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.holder);
    if (charts.size === 0) zoomOut.hidden = true;
    charts.add(this);
  }

  destroy() {
    charts.delete(this);
    this.observer.disconnect();
    if (this.plot) this.plot.destroy();
  }

  enlarge() {
    this.large = !this.large;
    this.element.classList.toggle("large", this.large);
    this.size.setAttribute("aria-pressed", String(this.large));
    this.resize();
    requestAnimationFrame(() => this.element.scrollIntoView({block: "nearest"}));  // uPlot sizes itself later
  }

  height() {
    const usual = this.options.height || 190;
    return this.large ? Math.max(usual, Math.round(innerHeight * 0.6)) : usual;
  }

  /**
   * lines: [{label, x: [], y: [], colour, width, quiet (not in the legend), odd}]
   * Lines may have different x. A y of null is a gap; `odd` is {x: [], v: [], text}: where values are NaN
   * or infinite, which they are, and how many. `bands` are pairs of indexes of lines [high, low].
   */
  set(lines, bands = []) {
    this.lines = lines;
    this.bands = bands;
    if (!this.holder.clientWidth) return;  // not laid out yet: resize() draws
    const tables = lines.map((line) => [line.x, line.y]);
    const data = tables.length === 0 ? [[0], [null]] : uPlot.join(tables);
    this.element.dataset.points = String(lines.reduce((count, line) => count + line.x.length, 0));
    const shape = JSON.stringify([lines.map((line) => [line.label, line.colour, line.width]), bands, this.options.log]);
    if (this.plot && this.shape === shape) {
      const zoomed = this.min !== null;
      this.plot.setData(data, !zoomed);
      if (zoomed) this.zoom(this.min, this.max);
    } else {
      if (this.plot) this.plot.destroy();
      this.shape = shape;
      this.plot = new uPlot(this.config(lines, bands), data, this.holder);
      if (this.min !== null) this.zoom(this.min, this.max);
    }
    this.legend(null);
    if (this.rows.open) this.fillTable();
  }

  config(lines, bands) {
    const faint = cssColour("--faint"), grid = cssColour("--grid");
    const font = "11px system-ui, sans-serif";
    const axis = {stroke: faint, font, grid: {stroke: grid, width: 1}, ticks: {stroke: grid, width: 1, size: 4}};
    return {
      width: this.holder.clientWidth,
      height: this.height(),
      legend: {show: false},
      cursor: {sync: {key: this.group, setSeries: false}, drag: {x: true, y: false, setScale: true}, points: {size: 5}},
      scales: {x: {time: Boolean(this.options.time)}, y: this.options.log ? {distr: 3, range: (plot, min, max) => (min > 0 ? [min / 1.05, max * 1.05] : [0.1, 1])} : {}},
      axes: [
        {...axis, size: 28, space: 70, values: (u, ticks) => ticks.map((tick) => (this.options.time ? clockText(tick, ticks) : shortNumber(tick)))},
        {...axis, size: 54, ...(this.options.log ? {splits: logTicks, filter: (plot, ticks) => ticks} : {}), values: (u, ticks) => ticks.map((tick) => tick === null ? "" : shortNumber(tick))},
      ],
      series: [{}].concat(lines.map((line) => ({
        label: line.label, stroke: line.colour, width: line.width ?? 1.2, points: {show: false, filter: (plot, i) => (this.lines[i - 1].odd || this.lines[i - 1].x.length === 1 ? aloneIn(plot.data[i]) : null)},
      }))),
      bands: bands.map(([high, low]) => ({series: [high + 1, low + 1], fill: `${lines[high].fill || lines[high].colour}`, dir: -1})),
      hooks: {
        draw: [(plot) => this.drawOdd(plot)],
        setCursor: [(plot) => this.legend(plot.cursor.idx)],
        setScale: [(plot, scale) => {
          if (scale !== "x" || zooming || !plot.data || this.setting) return;
          const {min, max} = plot.scales.x;
          const all = plot.data[0];
          const whole = all.length === 0 || (min <= all[0] && max >= all[all.length - 1]);
          [this.min, this.max] = whole ? [null, null] : [min, max];
          zoomAll(this, this.min, this.max);
        }],
      },
    };
  }

  zoom(min, max) {
    [this.min, this.max] = [min, max];
    if (!this.plot) return;
    this.setting = true;
    const all = this.plot.data[0];
    this.plot.setScale("x", {min: min ?? all[0], max: max ?? all[all.length - 1]});
    this.setting = false;
  }

  resize() {
    const width = this.holder.clientWidth;
    if (!width || !this.lines) return;
    if (!this.plot) this.set(this.lines, this.bands);
    else if (this.plot.width !== width || this.plot.height !== this.height()) this.plot.setSize({width, height: this.height()});
  }

  /** Shows the values at a position of the joined x, or the last ones. */
  legend(at) {
    if (!this.plot) return;
    const data = this.plot.data;
    const index = at ?? data[0].length - 1;
    const parts = this.lines.map((line, i) => {
      if (line.quiet) return null;
      const value = this.valueAt(i, index, at === null);
      return value === null ? null : h("span", {}, h("i", {style: {background: line.colour}}), line.label ? `${line.label} ` : "", h("b", {}, numberText(value)));
    });
    const x = data[0][index];
    this.values.replaceChildren(...parts.filter(Boolean), ...this.oddNotes(),
      h("span", {class: "faint"}, this.options.time ? timeText(x) : `${this.options.axis || "step"} ${numberText(Number(x.toPrecision(6)))}`));
  }

  oddNotes() {
    return this.lines.filter((line) => line.odd && !line.quiet).map((line) => h("span", {class: "bad odd"}, line.label ? `${line.label}: ` : "", line.odd.text));
  }

  /** Marks on the x axis where values are NaN or infinite. */
  drawOdd(plot) {
    const {ctx, bbox} = plot;
    ctx.save();
    ctx.fillStyle = cssColour("--bad");
    const wide = 3 * devicePixelRatio;
    for (const line of this.lines) {
      for (const x of line.odd?.x || []) {
        const left = plot.valToPos(x, "x", true);
        if (left >= bbox.left && left <= bbox.left + bbox.width) ctx.fillRect(left - wide / 2, bbox.top + bbox.height - 2 * wide, wide, 2 * wide);
      }
    }
    ctx.restore();
  }

  /**
   * The value of a line at an index of the joined x. Lines have different x, so the nearest earlier value
   * counts; `last`: the last one of all. "NaN", "inf" or "-inf" in a gap; null: none.
   */
  valueAt(i, index, last = false) {
    const {odd} = this.lines[i];
    const [xs, values] = [this.plot.data[0], this.plot.data[i + 1]];
    for (let at = index; at >= 0 && (last || at > index - 50); --at) {
      if (values[at] === undefined) continue;
      if (values[at] !== null) return values[at];
      if (odd) return odd.v[Math.max(0, odd.x.findLastIndex((x) => x <= xs[index]))];
      if (!last) return null;
    }
    return null;
  }

  /** At most 50 rows, so that the table can be read out. */
  fillTable() {
    if (!this.rows.open || !this.plot) return;
    const data = this.plot.data;
    const every = Math.max(1, Math.ceil(data[0].length / 50));
    const rows = [];
    for (let i = 0; i < data[0].length; i += every) rows.push([numberText(data[0][i]), ...this.lines.map((line, at) => numberText(this.valueAt(at, i)))]);
    this.rows.replaceChildren(h("summary", {}, "values"), ...this.oddNotes(), tableOf(this.options.title,
      [{title: this.options.time ? "time" : "step", number: true}, ...this.lines.map((line) => ({title: line.label || this.options.title, number: true}))], rows));
  }
}

/** What is NaN or infinite in a curve of the server, for a line of a chart over `x`; undefined: nothing. */
export function oddOf(curve, x) {
  const odd = curve.not_finite;
  if (!odd) return undefined;
  const kinds = ["NaN", "inf", "-inf"].filter((kind) => odd[kind] > 0).map((kind) => `${numberText(odd[kind])} ${kind}`);
  return {x, v: odd.v, text: `${kinds.join(", ")}${odd.x ? `, first at step ${numberText(odd.x[0])}` : ""}`};
}

/** The points of a line with a gap on both sides, which would be invisible without a dot. */
function aloneIn(data) {
  const values = data.map((value, i) => [value, i]).filter(([value]) => value !== undefined);
  const gap = (at) => !values[at] || values[at][0] === null;
  return values.filter(([value], at) => value !== null && gap(at - 1) && gap(at + 1)).map(([, i]) => i);
}

/** Of a logarithmic axis: powers of ten; if there are few, also 2 and 5 times those; if there are none, even ones. */
function logTicks(plot, axis, min, max) {
  const powers = [];
  for (let power = Math.floor(Math.log10(min)); power <= Math.log10(max); ++power) powers.push(power);
  const times = (factors) => powers.flatMap((power) => factors.map((factor) => Number(`${factor}e${power}`))).filter((tick) => tick >= min && tick <= max);
  const [tens, more] = [times([1]), times([1, 2, 5])];
  if (tens.length > 3) return tens.filter((_, i) => i % Math.ceil(tens.length / 6) === 0);
  if (more.length > 2) return more;
  const step = Number(`1e${Math.floor(Math.log10((max - min) / 2))}`);
  const wide = step * ([1, 2, 5].find((factor) => (max - min) / (step * factor) <= 5) || 10);
  const even = [];
  for (let tick = Math.ceil(min / wide); tick * wide <= max; ++tick) even.push(Number((tick * wide).toPrecision(6)));
  return even;
}

/** The time of day; the date if the ticks are days apart. */
function clockText(tick, ticks) {
  const [date, time] = timeText(tick).split(" ");
  if (ticks.length > 1 && ticks[1] - ticks[0] >= 86400) return date.slice(5);
  return ticks.length > 1 && ticks[1] - ticks[0] >= 60 ? time.slice(0, 5) : time;
}

export function shortNumber(value) {
  const size = Math.abs(value);
  if (size >= 1e9 || (size < 1e-3 && size > 0)) return Number(value.toPrecision(4)).toExponential().replace("+", "");
  if (size >= 1e6) return `${Number((value / 1e6).toPrecision(4))}M`;
  if (size >= 1e4) return `${Number((value / 1e3).toPrecision(4))}k`;
  return String(Number(value.toPrecision(6)));
}
