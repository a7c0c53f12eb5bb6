// What a rank printed: the last lines, earlier ones on demand.
import {fileKey, get} from "./data.js";
import {fill, h} from "./dom.js";
import {numberText, plainText} from "./format.js";

export async function showConsole(page, runs) {
  const run = runs[0];
  if (run.console_ranks.length === 0) {
    fill(page.element, h("p", {}, "This run has no console. To keep what a program prints, start it by ", h("code", {}, "ranklog exec -- COMMAND"), ", or call ", h("code", {}, "Run::CaptureConsole()"), " in it."));
    return null;
  }
  const rank = Number(page.options.get("rank") ?? (run.console_ranks.includes(run.primary_rank) ? run.primary_rank : run.console_ranks[0]));
  const choice = h("select", {"aria-label": "Rank", onchange: () => { location.hash = `#/run/${runs.map((each) => each.key).join(",")}/console?rank=${choice.value}`; }},
    run.console_ranks.map((each) => h("option", {value: each, selected: each === rank}, `rank ${each}`)));
  const words = h("input", {type: "search", placeholder: "filter  (/)", "aria-label": "Filter the lines"});
  const earlier = h("button", {type: "button"}, "earlier lines");
  const count = h("span", {class: "faint"});
  const output = h("pre", {class: "console", tabindex: "0"});
  fill(page.element, h("div", {class: "tools"}, !fileKey && choice, words, earlier, count), output);
  let lines = [];  // [number, time, error, text]
  let end = 0, first = 0;
  const draw = (stay) => {
    const atEnd = output.scrollTop + output.clientHeight > output.scrollHeight - 30;
    const wanted = words.value.toLowerCase();
    const shown = lines.filter(([, , , text]) => text.toLowerCase().includes(wanted));
    fill(output, shown.map(([, , error, text]) => h("span", {class: error ? "stderr" : ""}, plainText(text), "\n")));
    earlier.hidden = Boolean(fileKey) || lines.length === 0 || lines[0][0] <= first;
    count.textContent = `${numberText(shown.length)} of ${numberText(end - first)} lines`;
    if (!stay && atEnd) output.scrollTop = output.scrollHeight;
  };
  const read = async (from) => {
    const answer = await get("console", {run: run.key, rank, ...(from === undefined ? {} : {from})});
    if (!page.isCurrent()) return;
    [first, end] = [answer.first ?? 0, answer.end];
    const start = answer.lines.length > 0 ? answer.lines[0][0] : Infinity;
    const stop = answer.lines.length > 0 ? answer.lines[answer.lines.length - 1][0] : -1;
    lines = [...lines.filter(([number]) => number < start), ...answer.lines, ...lines.filter(([number]) => number > stop)];
  };
  earlier.addEventListener("click", async () => { await read(Math.max(first, lines[0][0] - 2000)); draw(true); });
  words.addEventListener("input", () => draw(true));
  await read();
  draw();
  output.scrollTop = output.scrollHeight;
  // The last line may have been written anew.
  return async () => { await read(Math.max(first, end - 1)); draw(); };
}
