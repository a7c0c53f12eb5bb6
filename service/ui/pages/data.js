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

/**
 * Calls `changed` after the runs (empty: any run) got new data, at most once per `pause` milliseconds,
 * until the returned function is called. A hidden page costs nothing.
 */
export function follow(keys, changed, pause = 1000) {
  if (file) return () => {};
  let source = null, due = false, busy = false, ended = false;
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
  const open = () => {
    if (ended || document.hidden || source) return;
    source = new EventSource(`/api/live?${new URLSearchParams(keys.map((key) => ["run", key]))}`);
    source.onmessage = look;
    source.onopen = () => { tell(""); look(); };
    // The browser connects anew by itself, unless another `ranklog ui`, with another token, answers.
    source.onerror = () => tell(source && source.readyState === EventSource.CLOSED
      ? "not live: open the link that `ranklog ui` printed" : "not live: `ranklog ui` does not answer");
  };
  const tell = (text) => { document.getElementById("live").textContent = ended ? "" : text; };
  const visible = () => {
    if (document.hidden && source) { source.close(); source = null; }
    open();
  };
  document.addEventListener("visibilitychange", visible);
  open();
  return () => {
    ended = true;
    document.removeEventListener("visibilitychange", visible);
    tell("");
    if (source) source.close();
  };
}
