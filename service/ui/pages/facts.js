// Notes, config, summary and metadata. Of several runs, the differences first.
import {fileKey, get} from "./data.js";
import {fill, h, tableOf} from "./dom.js";
import {figureText, flatten, timeText, valueText} from "./format.js";

/** The rows of a table: key, then a value per run. */
export function rowsOf(objects, onlyDifferent, textOf = valueText) {
  const flat = objects.map((object) => new Map(flatten(object)));
  const keys = [...new Set(flat.flatMap((map) => [...map.keys()]))];
  const differ = (key) => new Set(flat.map((map) => (map.has(key) ? valueText(map.get(key)) : ""))).size > 1;
  return keys.filter((key) => !onlyDifferent || differ(key))
    .map((key) => [key, ...flat.map((map) => (map.has(key) ? textOf(map.get(key), key) : ""))]);
}

/** What the run was started with, as far as it is set. */
function settingsOf(run) {
  const all = {notes: run.notes, tags: (run.tags || []).join(", "), group: run.group, "job type": run.job_type, strategy: run.strategy};
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value));
}

export async function showFacts(page, runs) {
  const several = runs.length > 1;
  const words = h("input", {type: "search", placeholder: "filter  (/)", "aria-label": "Filter the values"});
  const different = h("input", {type: "checkbox", checked: several});
  const body = h("div", {});
  fill(page.element, h("div", {class: "tools"}, words, several && h("label", {}, different, " only differences")), body);
  let summaries = [];
  const draw = () => {
    const columns = [{title: "Name"}, ...runs.map((run) => ({title: several ? run.name || run.run_id : "Value"}))];
    const part = (title, objects, textOf) => {
      const rows = rowsOf(objects, several && different.checked, textOf)
        .filter((row) => row.join(" ").toLowerCase().includes(words.value.toLowerCase()));
      return rows.length > 0 && h("div", {class: "wide"}, tableOf(title, columns, rows));
    };
    const settings = part("Run", runs.map(settingsOf));
    const parts = [!several && settings, part("Config", runs.map((run) => run.config)), part("Summary", summaries, (value, key) => (key === "_timestamp" ? timeText(value) : figureText(value))), several && settings, part("Process and node", runs.map((run) => run.metadata))];
    fill(body, parts.some(Boolean) ? parts : h("p", {}, "Nothing to show."));
  };
  words.addEventListener("input", draw);
  different.addEventListener("change", draw);
  draw();
  const read = async () => {
    summaries = (await Promise.all(runs.map((run) => get("summary", {run: run.key})))).map((each) => each.summary);
    if (page.isCurrent()) draw();
  };
  await read();
  return fileKey ? null : async (now) => { runs = now; await read(); };
}
