// The system metrics of the node, over time. Several GPUs, disks or interfaces share a chart.
import {Chart, colourOf, oddOf, zoomOut} from "./chart.js";
import {get} from "./data.js";
import {fill, h} from "./dom.js";

/** gpu.0.memory and gpu.1.memory belong to "gpu.*.memory". */
export function familyOf(name) {
  return name.replace(/\.\d+\./, ".*.").replace(/^(disk|network|cpu)\.[^.]+\.(?=[^.]+(\.[^.]+)?$)/, "$1.*.");
}

/** The unit of a metric; service/sample/README.md lists them. */
export function unitOf(name) {
  const units = [
    [/percent$|^cpu(\.|$)|\.gpu$|\.memory$|memoryAllocated$|(active|occupancy|activity|fanSpeed)$/i, "%"], [/MB$/, "MiB"], [/GB$/, "GiB"], [/^disk\..*\.(in|out)$/, "MiB since the start"],
    [/^network\.(sent|recv)$/, "bytes since the start"], [/[tr]xBytes$/, "bytes/s"], [/bytes$/i, "bytes"], [/watts$/i, "W"], [/temp$/i, "°C"], [/clock$/i, "MHz"]];
  return units.find(([pattern]) => pattern.test(name))?.[1];
}

export async function showSystem(page, runs) {
  const body = h("div", {class: "charts"});
  const notes = h("div", {});
  fill(page.element, h("div", {class: "tools"}, notes, zoomOut), body);
  const charts = new Map();
  const read = async () => {
    const run = runs[0];
    const {curves, samples} = await get("system", {run: run.key});
    if (!page.isCurrent()) return;
    fill(notes, samples === 0 ? h("p", {}, "No sample yet. The daemon samples the node while a run is live.") :
      h("p", {class: "faint"}, `The node of ${run.name || run.run_id}: ${[run.metadata.host, run.metadata.gpu && `${run.metadata.gpu_count || ""} ${run.metadata.gpu}`, run.metadata.cpu_count && `${run.metadata.cpu_count} cores`].filter(Boolean).join(", ")}`));
    const families = new Map();
    for (const name of Object.keys(curves)) families.set(familyOf(name), [...(families.get(familyOf(name)) || []), name]);
    for (const [family, members] of families) {
      if (!charts.has(family)) {
        const chart = new Chart({title: family, unit: unitOf(family), group: "time", time: true});
        charts.set(family, chart);
        body.append(chart.element);
      }
      charts.get(family).set(members.map((name, i) => ({
        label: members.length > 1 ? name : "", colour: colourOf(i), quiet: members.length > 12, x: curves[name].t, y: curves[name].v, odd: oddOf(curves[name], curves[name].not_finite?.t),
      })));
    }
  };
  page.onLeave(() => { for (const chart of charts.values()) chart.destroy(); });
  await read();
  return read;
}
