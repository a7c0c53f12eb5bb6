// Whether all data has arrived: per rank what was logged and lost, per destination what was sent.
import {get} from "./data.js";
import {commandOf, fill, h, tableOf} from "./dom.js";
import {bytesText, numberText, timeText} from "./format.js";

const number = (title) => ({title, number: true});

/** A bar of the parts of a run's rows. */
function barOf(destination, rows) {
  const parts = [["sent", destination.delivered_rows], ["replayed", destination.replayed_rows], ["refused", destination.refused_rows], ["queued", destination.pending_rows]];
  return h("div", {class: "parts", role: "img", "aria-label": parts.map(([name, count]) => `${name} ${count}`).join(", ")},
    parts.filter(([, count]) => count > 0).map(([name, count]) => h("span", {class: name, style: {"flex-grow": count / Math.max(rows, 1)}})));
}

function destinationOf(destination, run) {
  return h("section", {class: "card"},
    h("h2", {}, destination.kind, destination.set_apart && h("span", {class: "bad"}, " set apart: it crashed the daemon twice")),
    destination.kind === "local" ? h("p", {}, "The rows stay on this node.") : [
      barOf(destination, run.rows),
      h("p", {class: "facts"},
        h("span", {}, `sent ${numberText(destination.delivered_rows)}`),
        h("span", {}, `queued ${numberText(destination.pending_rows)}`),
        h("span", {class: destination.refused_rows > 0 ? "bad" : ""}, `refused ${numberText(destination.refused_rows)}`),
        destination.replayed_rows > 0 && h("span", {}, `replayed ${numberText(destination.replayed_rows)}`),
        destination.pending_items > 0 && h("span", {}, `items queued ${numberText(destination.pending_items)}`),
        destination.pending_files > 0 && h("span", {}, `files queued ${numberText(destination.pending_files)}, ${bytesText(destination.pending_file_bytes)}`),
        h("span", {class: destination.complete ? "good" : "faint"}, destination.complete ? "complete" : "not complete"))],
    /^https?:\/\//.test(destination.url) && h("p", {}, h("a", {href: destination.url, rel: "noreferrer noopener", target: "_blank"}, destination.url)),
    destination.last_error && h("p", {class: "error"}, destination.last_error));
}

export async function showDelivery(page, runs) {
  const draw = (run, {letters, dead_letters, unread}, artifacts) => {
    fill(page.element,
      h("p", {}, "To check every row at its destinations, run:"), commandOf(run.commands.verify),
      run.local_only && h("p", {class: "faint"}, "Part of a run whose rank 0 is on another node: kept on this node only."),
      run.destinations.map((destination) => destinationOf(destination, run)),
      unread.map((text) => h("p", {class: "error"}, text)),
      run.in_spools > 0 && h("p", {class: "error"}, `${numberText(run.in_spools)} rows are only in the spools of the ranks.`),
      h("div", {class: "wide"}, tableOf("Ranks", [{title: "Rank"}, number("Logged"), number("Lost"), {title: "Why"}, number("Late"), number("Replayed"), number("Items"), number("Items lost")],
        run.ranks.map((rank) => [`rank\u00a0${rank.rank}`, numberText(rank.rows),
          rank.lost > 0 ? h("span", {class: "bad"}, numberText(rank.lost)) : "0",
          Object.entries(rank.losses).filter(([, count]) => count > 0).map(([name, count]) => `${name} ${numberText(count)}`).join(", ") || rank.unread_spool,
          numberText(rank.late_rows), numberText(rank.replayed_rows), numberText(rank.items), numberText(rank.lost_items + rank.refused_items)]))),
      dead_letters > 0 && [h("div", {class: "wide"}, tableOf(`Refused records: ${numberText(dead_letters)}`, [{title: "Destination"}, number("Row"), {title: "Time"}, {title: "Answer"}, {title: "Record"}],
        letters.map((letter) => [letter.kind, numberText(letter.row), timeText(letter.timestamp), letter.answer, h("code", {}, letter.content.slice(0, 300))]))),
      commandOf(run.commands.dead)],
      artifacts.length > 0 && h("div", {class: "wide"}, tableOf("Artifacts and files", [{title: "Name"}, {title: "Type"}, {title: "Aliases"}, number("Step"), number("Files"), number("Size"), {title: "Time"}],
        artifacts.map((each) => [each.name || each.path || each.use, each.type || (each.path ? "file" : "used"), (each.aliases || []).join(", "), numberText(each.step), each.files, bytesText(each.bytes), timeText(each.timestamp)]))),
      artifacts.length > 0 && commandOf(run.commands.artifacts));
  };
  const read = async () => {
    const run = runs[0];
    const [delivery, {artifacts}] = await Promise.all([get("delivery", {run: run.key}), get("artifacts", {run: run.key})]);
    if (page.isCurrent()) draw({...delivery.run, commands: run.commands}, delivery, artifacts);
  };
  await read();
  return async (now) => { runs = now; await read(); };
}
