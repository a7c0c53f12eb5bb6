// The keyboard: / filters, j and k move, Enter opens, ? helps.
import {h} from "./dom.js";

const meanings = [
  ["/", "filter the runs or the charts"],
  ["j, k", "next, previous"],
  ["Enter", "open a run; enlarge a chart"],
  ["x", "select a run, to compare it"],
  ["u", "back to the runs"],
  ["1 to 7", "the views of a run"],
  ["Esc", "leave the filter; zoom out"],
  ["?", "this help"],
];

export function keysDialog() {
  const dialog = h("dialog", {"aria-label": "Keys"},
    h("table", {}, meanings.map(([key, text]) => h("tr", {}, h("th", {}, h("kbd", {}, key)), h("td", {}, text)))),
    h("button", {type: "button", onclick: () => dialog.close()}, "close"));
  return dialog;
}

function move(by) {
  const all = [...document.querySelectorAll("[data-move]")];
  if (all.length === 0) return;
  const at = all.findIndex((each) => each === document.activeElement || each.contains(document.activeElement));
  const next = all[Math.max(0, Math.min(all.length - 1, at < 0 ? 0 : at + by))];
  next.focus();
  next.scrollIntoView({block: "nearest"});
}

export function listenForKeys(help) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    const typing = event.target.matches("input, select, textarea");
    if (typing) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const actions = {
      "/": () => { const filter = document.querySelector("input[type=search]"); if (filter) filter.focus(); },
      j: () => move(1),
      k: () => move(-1),
      u: () => { location.hash = "#/"; },
      x: () => { const box = document.activeElement.querySelector && document.activeElement.querySelector("input[type=checkbox]"); if (box) box.click(); },
      Enter: () => { 
        if (!event.target.matches("[data-move]")) return;
        if (event.target.chart) event.target.chart.enlarge();
        else event.target.querySelector("a")?.click();
      },
      Escape: () => document.dispatchEvent(new CustomEvent("zoomout")),
      "?": () => help.showModal(),
    };
    const tab = /^[1-9]$/.test(event.key) && document.querySelectorAll("nav.tabs a")[event.key - 1];
    if (tab) tab.click();
    else if (actions[event.key]) actions[event.key]();
    else return;
    if (event.key !== "Enter") event.preventDefault();
  });
}
