// The curves that the page has read, and what it still has to read.
import {get} from "./data.js";

export class CurveStore {
  constructor(runs) {
    this.runs = new Map(runs.map((run) => [run.key, {rows: run.rows, curves: new Map(), rewinds: null, stale: false}]));
    this.complete = true;
    this.more = new Set();  // metrics that only the curves show: integers above 2^53
  }

  /** Finds `more` without reading a curve. */
  async learn() {
    for (const key of this.runs.keys()) for (const name of (await get("curves", {run: key, metric: "", quick: 1})).more) this.more.add(name);
  }

  /** The curve {x, t, v, ...} of a metric; undefined if it is not read, or the run has none. */
  of(key, metric) {
    return this.runs.get(key)?.curves.get(metric)?.curve;
  }

  /** Runs may have new rows. */
  stale(runs) {
    for (const run of runs) {
      const mine = this.runs.get(run.key);
      if (mine && mine.rows !== run.rows) mine.stale = true;
      if (mine) mine.rows = run.rows;
    }
  }

  /** Reads what is missing or stale of these metrics. True: there is something new to draw. */
  async load(metrics) {
    let changed = false;
    this.complete = true;
    for (const [key, run] of this.runs) {
      const missing = metrics.filter((metric) => !run.curves.get(metric)?.complete);
      if (missing.length > 0) {
        // The first look at a long run is a sample of its rows, the second all of them.
        const quick = missing.some((metric) => !run.curves.has(metric));
        for (let i = 0; i < missing.length; i += 60) {
          const part = missing.slice(i, i + 60);
          this.take(run, part, await get("curves", {run: key, metric: part, ...(quick ? {quick: 1} : {})}));
        }
        changed = true;
      } else if (run.stale && metrics.length > 0) {
        run.stale = false;
        const since = Math.min(...metrics.map((metric) => run.curves.get(metric).through));
        const answer = await get("curves", {run: key, metric: metrics, since});
        if (answer.rewinds !== run.rewinds) run.curves.clear();  // earlier points are no longer the run's
        else this.join(run, metrics, answer);
        changed = true;
      }
      if (metrics.some((metric) => !run.curves.get(metric)?.complete)) this.complete = false;
    }
    return changed;
  }

  take(run, metrics, answer) {
    run.rewinds = answer.rewinds;
    for (const name of answer.more) this.more.add(name);
    for (const metric of metrics) {
      run.curves.set(metric, {curve: ownOf(answer.curves, metric), complete: answer.complete, through: answer.last_step});
    }
  }

  join(run, metrics, answer) {
    for (const name of answer.more) this.more.add(name);
    for (const metric of metrics) {
      const mine = run.curves.get(metric);
      const more = ownOf(answer.curves, metric);
      mine.through = answer.last_step;
      if (!more) continue;
      if (!mine.curve) mine.curve = more;
      else if (more.x.length > 0) {
        const old = mine.curve;
        let keep = old.x.length;
        while (keep > 0 && old.x[keep - 1] >= more.x[0]) --keep;
        mine.curve = {...more};
        const join = (from, into, count) => { for (const part of ["x", "t", "v"]) into[part] = from[part].slice(0, count).concat(into[part]); };
        join(old, mine.curve, keep);
        if (old.not_finite) {
          const first = more.not_finite.x[0] ?? Infinity;
          join(old.not_finite, more.not_finite, old.not_finite.x.filter((x) => x < first).length);
        }
        // The server thins as the run grows. What this page has may be finer, but not for ever.
        if (mine.curve.x.length > 4000) run.curves.delete(metric);
      }
    }
  }
}

/** A metric may have the name of what every object has, such as "constructor". */
function ownOf(object, name) {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}
