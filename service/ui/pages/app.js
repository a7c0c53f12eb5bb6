// Shows the view of the URL: #/ are the runs, #/run/KEY[,KEY...]/TAB?OPTIONS one or several of them.
import {fileKey} from "./data.js";
import {fill, h} from "./dom.js";
import {keysDialog, listenForKeys} from "./keys.js";
import {showRun} from "./run.js";
import {showRuns} from "./runs.js";

const main = h("main", {tabindex: "-1"});
const help = keysDialog();
document.body.append(
  h("header", {class: "bar"},
    h("a", {href: fileKey ? "#" : "#/", class: "brand"}, "Ranklog"),
    h("span", {id: "where"}),
    h("span", {class: "space"}),
    h("span", {id: "live", class: "bad", role: "status"}),
    h("button", {type: "button", onclick: () => help.showModal(), title: "Keys (?)"}, "?")),
  main, help);
listenForKeys(help);

let leave = () => {};

async function show() {
  leave();
  let current = true;
  const undo = [];
  leave = () => { current = false; undo.forEach((each) => each()); };
  const [path, query] = location.hash.replace(/^#/, "").split("?");
  const parts = path.split("/").filter(Boolean);
  const page = {
    element: main,
    options: new URLSearchParams(query),
    isCurrent: () => current,
    onLeave: (f) => undo.push(f),
  };
  fill(main, h("p", {class: "faint"}, "loading ..."));
  try {
    if (fileKey) await showRun(page, [fileKey], parts[2] || "curves");
    else if (parts[0] === "run" && parts[1]) await showRun(page, parts[1].split(","), parts[2] || "curves");
    else await showRuns(page);
  } catch (error) {
    if (current) fill(main, h("p", {class: "error", role: "alert"}, `Cannot show this: ${error.message}`));
  }
}

window.addEventListener("hashchange", show);
show();
