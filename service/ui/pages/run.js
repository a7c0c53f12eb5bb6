// The page of one or several runs: its head, and a view of the tab.
import {colourOf} from "./chart.js";
import {showConsole} from "./console.js";
import {showCurves} from "./curves.js";
import {fileKey, follow, get} from "./data.js";
import {showDelivery} from "./delivery.js";
import {fill, h} from "./dom.js";
import {showFacts} from "./facts.js";
import {counted, durationText, numberText, timeText} from "./format.js";
import {showRanks} from "./ranks.js";
import {deliveryOf, lossText, stateOf} from "./runs.js";
import {showSystem} from "./system.js";

// A view of several runs has `true`.
const tabs = [
  ["curves", "Curves", showCurves, true],
  ["ranks", "Ranks", showRanks],
  ["system", "System", showSystem],
  ["facts", "Config and summary", showFacts, true],
  ["delivery", "Delivery", showDelivery],
  ["console", "Console", showConsole],
];

export const nameOf = (run) => run.name || run.run_id;

function headOf(run) {
  const delivery = deliveryOf(run);
  const missing = lossText(run);
  const time = run.ended ? `took ${durationText(run.ended - run.started)}` : `for ${durationText(Date.now() / 1000 - run.started)}`;
  return [
    h("h1", {}, nameOf(run), " ", h("small", {class: "faint"}, `${run.project}:${run.run_id}`)),
    h("p", {class: "facts"},
      stateOf(run), run.reason && h("span", {class: "bad"}, run.reason),
      h("span", {}, counted(run.rows, "row")),
      run.last_step >= 0 && h("span", {}, `step ${numberText(run.last_step)}`),
      h("span", {}, counted(run.ranks.length, "rank")),
      h("span", {}, `started ${timeText(run.started)}, ${time}`),
      h("span", {class: delivery.bad ? "bad" : ""}, delivery.text),
      h("span", {class: missing ? "bad" : "good"}, missing ? `missing: ${missing}` : "nothing missing")),
    run.stopped && h("p", {class: "error"}, `The daemon cannot make this run's rows: ${run.stopped}`),
    run.notice && h("p", {class: run.refused ? "error" : "faint"}, run.notice),
  ];
}

function headOfSeveral(runs, tab) {
  return [h("h1", {}, `${runs.length} runs`), h("p", {class: "facts"}, runs.map((run, i) =>
    h("span", {}, h("i", {class: "dot", style: {background: colourOf(i)}}), h("a", {href: `#/run/${run.key}`}, nameOf(run)), " ", stateOf(run), " ",
      h("a", {class: "faint", href: `#/run/${runs.filter((each) => each !== run).map((each) => each.key).join(",")}/${tab}`, title: `Remove ${nameOf(run)}`, "aria-label": `Remove ${nameOf(run)}`}, "✕"))))];
}

export async function showRun(page, keys, tab) {
  const read = () => Promise.all(keys.map((key) => get("run", {run: key})));
  let runs = await read();
  if (!page.isCurrent()) return;
  document.title = `${runs.map(nameOf).join(", ")}: ${tab}`;
  fill(document.getElementById("where"), fileKey ? null : h("a", {href: "#/"}, "runs"));
  const head = h("section", {class: "head"});
  const show = () => fill(head, runs.length === 1 ? headOf(runs[0]) : headOfSeveral(runs, tab));
  show();
  const body = h("section", {});
  fill(page.element, head,
    h("nav", {class: "tabs", "aria-label": "Views"}, tabs.filter(([, , , several]) => several || runs.length === 1).map(([id, title]) =>
      h("a", {href: `#/run/${keys.join(",")}/${id}`, "aria-current": id === tab ? "page" : undefined}, title))),
    body);
  const [, , view] = tabs.find(([id]) => id === tab) || tabs[0];
  const inner = {...page, element: body};
  const update = await view(inner, runs);
  if (!runs.some((run) => run.state === "running")) return;
  page.onLeave(follow(keys, async () => {
    runs = await read();
    if (!page.isCurrent()) return;
    show();
    if (update) await update(runs);
  }));
}
