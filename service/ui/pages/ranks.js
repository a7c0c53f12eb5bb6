// How the ranks differ: band over the ranks, heat map rank × step, and which rank was highest how often.
import {Chart, colourOf, zoomOut} from "./chart.js";
import {fileKey, get} from "./data.js";
import {fill, h, tableOf} from "./dom.js";
import {isInner, numberText} from "./format.js";
import {drawHeat, heatTextAt} from "./heat.js";

const lag = "_lag";
const timelike = /(^|[/_.])(time|seconds|secs?|ms|duration|latency)$/i;
const titleOf = (metric) => (metric === lag ? "time behind the first rank (s)" : metric);

export async function showRanks(page, runs) {
  const run = runs[0];
  const metrics = run.metrics.map((metric) => metric.name).filter((name) => !/^rank_\w+\//.test(name) && !isInner(name));
  const metric = page.options.get("metric") || (fileKey ? lag : metrics.find((name) => timelike.test(name)) || lag);
  const chosen = new Set();  // ranks with a line of their own
  const choice = h("select", {"aria-label": "Metric", onchange: () => {
    location.hash = `#/run/${runs.map((each) => each.key).join(",")}/ranks?${new URLSearchParams({metric: choice.value})}`;
  }}, [lag, ...metrics].map((name) => h("option", {value: name, selected: name === metric}, titleOf(name))));
  const said = h("p", {class: "verdict"});
  const chart = new Chart({title: titleOf(metric), group: "ranks", height: 240});
  const canvas = h("canvas", {class: "heat", role: "img", tabindex: "0"});
  const names = h("div", {class: "names", "aria-hidden": "true"});
  const under = h("p", {class: "legend"});
  const key = h("p", {class: "legend"});
  const table = h("div", {});
  fill(page.element,
    h("div", {class: "tools"}, !fileKey && h("label", {}, "metric ", choice), fileKey && titleOf(metric), zoomOut,
      runs.length > 1 && h("span", {class: "faint"}, `of ${run.name || run.run_id}`)),
    said, chart.element,
    h("figure", {class: "chart"}, h("figcaption", {}, "rank × step"), h("div", {class: "map"}, names, canvas, h("span", {}), under), key), table);

  let data = null;
  const draw = () => {
    const {ranks, steps, values, highest, not_finite, compared} = data;
    const odd = ranks.filter((_, i) => not_finite[i] > 0);
    if (ranks.length === 0) {
      fill(said, "No rank has logged this metric.");
      return;
    }
    const order = ranks.map((_, i) => i).sort((a, b) => highest[b] - highest[a]);
    const slowest = order[0];
    fill(said, compared === 0 ? "The ranks do not differ at any of the shown steps." :
      ["Highest most often: ", h("b", {}, `rank ${ranks[slowest]}`), `, at ${numberText(highest[slowest])} of ${numberText(compared)} compared steps.`],
      odd.length > 0 && h("span", {class: "bad"}, ` NaN or infinite: rank ${odd.join(", ")}.`),
      data.rows_left_out > 0 && h("span", {class: "faint"}, ` The oldest ${numberText(data.rows_left_out)} rows of the ranks are not shown.`));
    const over = (f) => steps.map((_, at) => {
      const column = values.map((row) => row[at]).filter((value) => value !== null);
      return column.length === 0 ? null : f(column);
    });
    const colour = colourOf(0);
    const lines = [
      {label: "max", colour: `${colour}77`, width: 0.8, fill: `${colour}30`, x: steps, y: over((column) => column.reduce((a, b) => Math.max(a, b)))},
      {label: "min", colour: `${colour}77`, width: 0.8, x: steps, y: over((column) => column.reduce((a, b) => Math.min(a, b)))},
      {label: "mean", colour, x: steps, y: over((column) => column.reduce((a, b) => a + b, 0) / column.length)},
    ];
    const shown = new Set(compared > 0 ? [slowest] : []);
    for (const i of chosen) shown.add(i);
    for (const i of shown) lines.push({label: `rank ${ranks[i]}`, colour: colourOf(1 + (i === slowest ? 0 : 1 + i)), width: 1.2, x: steps, y: values[i]});
    chart.set(lines, [[0, 1]]);
    const scale = drawHeat(canvas, data);
    canvas.setAttribute("aria-label", `Heat map of ${titleOf(metric)} for ${ranks.length} ranks and ${steps.length} steps; the table below has the counts`);
    const every = Math.ceil(ranks.length / 16);  // as many names as fit
    fill(names, ranks.filter((_, i) => i % every === 0).map((rank) => h("span", {}, rank)));
    fill(under, h("span", {}, `step ${numberText(steps[0])}`), h("span", {class: "space"}), h("span", {}, numberText(steps[steps.length - 1])));
    fill(key, h("span", {}, numberText(scale.low)), h("i", {class: "ramp"}), h("span", {}, `${numberText(scale.high)}${scale.clipped ? " and more" : ""}`));
    fill(table, tableOf("How often each rank was highest",
      [{title: "Rank"}, {title: "Steps", number: true}, {title: "Share", number: true}, {title: "Mean", number: true}, ...(odd.length > 0 ? [{title: "NaN or infinite", number: true}] : []), {title: "Line"}],
      order.map((i) => {
        const own = values[i].filter((value) => value !== null);
        return [`rank\u00a0${ranks[i]}`, numberText(highest[i]), compared ? `${(100 * highest[i] / compared).toFixed(1)} %` : "",
          own.length === 0 ? "" : numberText(own.reduce((a, b) => a + b, 0) / own.length), ...(odd.length > 0 ? [numberText(not_finite[i])] : []),
          h("input", {type: "checkbox", checked: shown.has(i), "aria-label": `Line of rank ${ranks[i]}`, onchange: (event) => {
            if (event.target.checked) chosen.add(i);
            else chosen.delete(i);
            draw();
          }})];
      })));
  };
  const read = async () => {
    data = await get("ranks", {run: run.key, metric});
    if (page.isCurrent()) draw();
  };
  const point = (event) => {
    if (!data || data.ranks.length === 0) return;
    const box = canvas.getBoundingClientRect();
    under.textContent = heatTextAt(data, (event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height);
  };
  canvas.addEventListener("mousemove", point);
  canvas.addEventListener("mouseleave", () => { if (data && data.ranks.length > 0) draw(); });
  const observer = new ResizeObserver(() => { if (data) drawHeat(canvas, data); });
  observer.observe(canvas);
  page.onLeave(() => { observer.disconnect(); chart.destroy(); });
  await read();
  let last = Date.now();
  return async () => {  // reading the rows of all ranks costs more than a new point of a curve
    if (Date.now() - last < 5000) return;
    last = Date.now();
    await read();
  };
}
