// The table of runs: filter, sort, group, and selection for a comparison.
import {follow, get} from "./data.js";
import {fill, h} from "./dom.js";
import {counted, durationText, numberText, timeText} from "./format.js";

const sum = (list, field) => list.reduce((total, each) => total + (each[field] || 0), 0);

/** The loss of a run, as a short text; empty if nothing is missing. */
export function lossText(run) {
  const parts = [];
  const add = (count, what) => { if (count > 0) parts.push(`${numberText(count)} ${what}`); };
  add(sum(run.ranks, "lost"), "lost");
  add(run.late_rows, "late");
  add(run.in_spools, "in spools");
  add(sum(run.ranks, "lost_items") + sum(run.ranks, "refused_items"), "items");
  if (run.ranks.some((rank) => rank.unread_spool)) parts.push("spool unread");
  return parts.join(", ");
}

/** What its trackers have of a run: {text, bad, part}. */
export function deliveryOf(run) {
  if (run.local_only) return {text: "kept here: rank 0 is elsewhere", bad: false};
  const remote = run.destinations.filter((each) => each.kind !== "local");
  if (remote.length === 0) return {text: "on this node", bad: false};
  const all = remote.map((each) => {
    const left = each.pending_rows + each.refused_rows;
    if (each.set_apart) return `${each.kind}: set apart`;
    if (each.refused_rows > 0) return `${each.kind}: ${numberText(each.refused_rows)} refused`;
    if (left === 0 && (each.complete || run.state === "running")) return `${each.kind}: all`;
    return `${each.kind}: ${run.rows ? Math.floor(100 * (1 - left / run.rows)) : 0} %`;
  });
  const waiting = remote.some((each) => each.last_error && !each.complete);
  return {text: all.join(", "), bad: waiting || remote.some((each) => each.set_apart || each.refused_rows > 0)};
}

export function stateOf(run) {
  const marks = {running: "▶", finished: "✓", failed: "✕", crashed: "✕"};
  return h("span", {class: `state ${run.state}`, title: run.reason || ""}, marks[run.state], " ", run.state);
}

const took = (run) => (run.ended || Date.now() / 1000) - run.started;

const columns = [
  {id: "name", title: "Run", of: (run) => run.name || run.run_id},
  {id: "state", title: "State", of: (run) => run.state},
  {id: "project", title: "Project", of: (run) => run.project, wide: true},
  {id: "ranks", title: "Ranks", of: (run) => run.ranks.length, number: true, wide: true},
  {id: "rows", title: "Rows", of: (run) => run.rows, number: true, wide: true},
  {id: "last_step", title: "Last step", of: (run) => run.last_step, number: true, wide: true},
  {id: "started", title: "Started", of: (run) => run.started, wide: true},
  {id: "took", title: "Took", of: took, number: true, wide: true},
  {id: "delivery", title: "Delivery", of: (run) => deliveryOf(run).text},
  {id: "loss", title: "Missing", of: lossText},
];

const groups = {
  none: {title: "no groups", of: () => ""},
  project: {title: "by project", of: (run) => run.project},
  group: {title: "by group", of: (run) => run.group || "without a group"},
  store: {title: "by store", of: (run, stores) => stores[run.store].dir},
};

export async function showRuns(page) {
  const chosen = new Set();
  const view = {
    filter: page.options.get("filter") || "",
    sort: page.options.get("sort") || "-started",
    group: Object.hasOwn(groups, page.options.get("group") || "") ? page.options.get("group") : "none",
  };
  let data = await get("runs");
  if (!page.isCurrent()) return;
  document.title = "Ranklog: runs";
  fill(document.getElementById("where"), "");

  const filter = h("input", {type: "search", placeholder: "filter  (/)", value: view.filter, "aria-label": "Filter the runs"});
  const grouping = h("select", {"aria-label": "Group the runs"},
    Object.entries(groups).map(([id, {title}]) => h("option", {value: id, selected: id === view.group}, title)));
  const compare = h("a", {class: "button", hidden: true}, "compare");
  const count = h("span", {class: "faint"});
  const body = h("div", {class: "wide"});
  fill(page.element,
    h("div", {class: "tools"}, filter, grouping, compare, count), body);

  const remember = () => {
    const options = new URLSearchParams();
    if (view.filter) options.set("filter", view.filter);
    if (view.sort !== "-started") options.set("sort", view.sort);
    if (view.group !== "none") options.set("group", view.group);
    history.replaceState(null, "", `#/${String(options) && "?"}${options}`);
  };
  const select = (key, on) => {
    if (on) chosen.add(key);
    else chosen.delete(key);
    compare.hidden = chosen.size < 2;
    compare.textContent = `compare ${chosen.size} runs`;
    compare.href = `#/run/${[...chosen].join(",")}`;
  };
  const rowOf = (run) => {
    const delivery = deliveryOf(run);
    const missing = lossText(run);
    const cells = {
      name: [h("input", {type: "checkbox", "aria-label": `Select ${run.name || run.run_id}`, checked: chosen.has(run.key),
        onchange: (event) => select(run.key, event.target.checked)}),
      h("a", {href: `#/run/${run.key}`}, run.name || run.run_id),
      run.name && run.name !== run.run_id ? h("span", {class: "faint"}, " ", run.run_id) : null],
      state: stateOf(run),
      project: run.project,
      ranks: run.ranks.length,
      rows: numberText(run.rows),
      last_step: run.last_step < 0 ? "" : numberText(run.last_step),
      started: timeText(run.started),
      took: durationText(took(run)),
      delivery: h("span", {class: delivery.bad ? "bad" : ""}, delivery.text),
      loss: missing ? h("span", {class: "bad"}, missing) : h("span", {class: "faint"}, "nothing"),
    };
    return h("tr", {"data-move": true, tabindex: "-1"},
      columns.map((column) => h("td", {class: [column.number && "number", column.wide && "roomy"].filter(Boolean).join(" ")}, cells[column.id])));
  };
  const draw = () => {
    const words = view.filter.toLowerCase().split(/\s+/).filter(Boolean);
    const text = (run) => `${run.name} ${run.run_id} ${run.project} ${run.group} ${run.job_type} ${run.state} ${run.tags.join(" ")}`.toLowerCase();
    const runs = data.runs.filter((run) => words.every((word) => text(run).includes(word)));
    const id = view.sort.replace(/^-/, "");
    const column = columns.find((each) => each.id === id) || columns[0];
    const sign = view.sort.startsWith("-") ? -1 : 1;
    runs.sort((a, b) => {
      const [x, y] = [column.of(a), column.of(b)];
      return sign * (x < y ? -1 : x > y ? 1 : 0);
    });
    count.textContent = runs.length === data.runs.length ? counted(runs.length, "run") : `${runs.length} of ${counted(data.runs.length, "run")}`;
    const byGroup = new Map();
    for (const run of runs) {
      const group = groups[view.group].of(run, data.stores);
      byGroup.set(group, [...(byGroup.get(group) || []), run]);
    }
    const focused = [...body.querySelectorAll("[data-move]")].indexOf(document.activeElement);
    fill(body,
      data.stores.filter((store) => store.error).map((store) => h("p", {class: "error", role: "alert"}, `${store.dir}: ${store.error}`)),
      data.runs.length === 0 && h("p", {}, "No run yet. A run appears here as soon as a rank logs its first row."),
      h("table", {class: "runs"},
        h("thead", {}, h("tr", {}, columns.map((each) => h("th", {
          class: [each.number && "number", each.wide && "roomy"].filter(Boolean).join(" "),
          "aria-sort": each.id === id ? (sign < 0 ? "descending" : "ascending") : undefined,
        }, h("button", {type: "button", onclick: () => {
          view.sort = view.sort === each.id ? `-${each.id}` : each.id;
          remember();
          draw();
        }}, each.title, each.id === id ? (sign < 0 ? " ↓" : " ↑") : ""))))),
        [...byGroup].map(([group, members]) => h("tbody", {},
          group && h("tr", {class: "group"}, h("th", {colspan: columns.length}, group, h("span", {class: "faint"}, ` ${members.length}`))),
          members.map(rowOf)))));
    if (focused >= 0) body.querySelectorAll("[data-move]")[focused]?.focus();
  };
  filter.addEventListener("input", () => { view.filter = filter.value; remember(); draw(); });
  grouping.addEventListener("change", () => { view.group = grouping.value; remember(); draw(); });
  draw();
  page.onLeave(follow([], async () => {
    data = await get("runs");
    if (page.isCurrent()) draw();
  }, 2000));
}
