// Numbers, times and sizes as texts.

export function numberText(value) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return value.toLocaleString("en");
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e9)) return value.toExponential(3);
  return String(Number(value.toPrecision(5)));
}

export function durationText(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} m ${String(s % 60).padStart(2, "0")} s`;
  const hours = Math.floor(s / 3600);
  if (hours < 48) return `${hours} h ${String(Math.floor(s % 3600 / 60)).padStart(2, "0")} m`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function timeText(seconds) {
  const at = new Date(seconds * 1000);
  const two = (n) => String(n).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

export function bytesText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; bytes >= 1024 && i + 1 < units.length; ++i) bytes /= 1024;
  return `${i === 0 ? bytes : bytes.toFixed(1)} ${units[i]}`;
}

/** A value of the summary. Fractions have the digits that curves have. */
export function figureText(value) {
  return typeof value === "number" && !Number.isInteger(value) ? String(Number(value.toPrecision(6))) : valueText(value);
}

/** In full. */
export function valueText(value) {
  if (typeof value === "string") return value;
  return JSON.stringify(value);
}

export function counted(count, what) {
  return `${numberText(count)} ${what}${count === 1 ? "" : "s"}`;
}

/** Whether a metric is one that every row has, and no user logged. */
export function isInner(metric) {
  return /^_(step|timestamp|runtime|wandb)$/.test(metric);
}

/** {a: {b: 1}} as [["a.b", 1]]. */
export function flatten(object, prefix = "") {
  return Object.entries(object || {}).flatMap(([key, value]) =>
    value !== null && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length > 0
      ? flatten(value, `${prefix}${key}.`) : [[prefix + key, value]]);
}

/** Without the escape sequences of terminals. */
export function plainText(text) {
  // eslint-disable-next-line no-control-regex
  return text.replace(/\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-Z\\-_])/g, "").replace(/[\x00-\x08\x0b-\x1f\x7f]/g, "");
}
