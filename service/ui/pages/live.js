// A shared worker: one event stream for all tabs of a browser. A browser opens only six connections to a
// server, so with a stream per tab, the seventh would wait for ever.
//
// A tab sends the keys of the runs that it shows ([]: all runs; null: none now). It gets {open: true},
// {changed: keys}, {lost: true} (the server does not answer; the browser tries again), or {refused: true}.

const tabs = new Map();  // by port: keys
let source = null;
let following = "";
const tell = (message) => { for (const port of tabs.keys()) port.postMessage(message); };

function connect(port) {
  const lists = [...tabs.values()];
  const keys = lists.some((list) => list.length === 0) ? [] : [...new Set(lists.flat())].sort();
  const query = String(new URLSearchParams(keys.map((key) => ["run", key])));
  if (source && query === following && source.readyState !== EventSource.CLOSED && tabs.size > 0) {
    if (source.readyState === EventSource.OPEN && tabs.has(port)) port.postMessage({open: true});
    return;
  }
  if (source) source.close();
  source = null;
  if (tabs.size === 0) return;
  following = query;
  const own = source = new EventSource(`/api/live?${query}`);
  own.onopen = () => tell({open: true});
  own.onmessage = (event) => {
    const changed = event.data.split(" ");
    for (const [port, keys] of tabs) if (keys.length === 0 || keys.some((key) => changed.includes(key))) port.postMessage({changed});
  };
  own.onerror = () => {
    if (own !== source) return;
    const refused = own.readyState === EventSource.CLOSED;
    tell(refused ? {refused} : {lost: true});
    if (refused) setTimeout(() => { if (own === source) connect(); }, 10000);
  };
}

function add(port) {
  port.onmessage = ({data}) => {
    if (data) tabs.set(port, data);
    else tabs.delete(port);
    connect(port);
  };
}

if ("onconnect" in self) self.onconnect = (event) => add(event.ports[0]);
else add(self);  // a worker of one tab, in browsers without shared ones
