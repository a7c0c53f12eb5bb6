// Gets data from the server, or from the file that the page is in (`ranklog show --html`).

const inside = document.getElementById("data");
const file = inside && JSON.parse(inside.textContent);

/** The key of the only run, if this page is a file. */
export const fileKey = file && file.key;

/** get("curves", {run: "0-1", metric: ["a", "b"]}) */
export async function get(name, parameters = {}) {
  if (file) return file[name];
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(parameters)) {
    for (const each of [value].flat()) query.append(key, each);
  }
  const answer = await fetch(`/api/${name}?${query}`);
  if (!answer.ok) throw new Error((await answer.text()).trim() || `HTTP ${answer.status}`);
  return answer.json();
}

let port = null;

/** To the worker that has the event stream of all tabs. */
function livePort() {
  if (!port) port = window.SharedWorker ? new SharedWorker("live.js").port : new Worker("live.js");
  return port;
}

/**
 * Calls `changed` after the runs (empty: any run) got new data, at most once per `pause` milliseconds,
 * until the returned function is called. A hidden page costs nothing.
 */
export function follow(keys, changed, pause = 1000) {
  if (file) return () => {};
  let due = false, busy = false, ended = false;
  const look = async () => {
    if (busy || ended || document.hidden) { due = true; return; }
    busy = true;
    due = false;
    try {
      await changed();
    } catch (error) {
      console.warn(error);
    }
    setTimeout(() => { busy = false; if (due) look(); }, pause);
  };
  const tell = (text) => { document.getElementById("live").textContent = text; };
  const own = livePort();
  own.onmessage = ({data}) => {
    if (data.lost) return tell("not live: `ranklog ui` does not answer");
    // Another `ranklog ui`, with another token, answers.
    if (data.refused) return tell("not live: open the link that `ranklog ui` printed");
    tell("");
    look();
  };
  const show = () => own.postMessage(document.hidden ? null : keys);
  const hide = () => own.postMessage(null);
  document.addEventListener("visibilitychange", show);
  addEventListener("pagehide", hide);
  addEventListener("pageshow", show);
  show();
  return () => {
    ended = true;
    own.onmessage = null;
    document.removeEventListener("visibilitychange", show);
    removeEventListener("pagehide", hide);
    removeEventListener("pageshow", show);
    tell("");
    hide();
  };
}
