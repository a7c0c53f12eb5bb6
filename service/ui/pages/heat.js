// Draws the heat map of ranks and steps on a canvas.
import {numberText} from "./format.js";

// Points of the colour map "viridis", which is even in lightness: it works in grey and for the
// colour-blind.
const ramp = [[68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141], [39, 173, 129], [92, 200, 99], [170, 220, 50], [253, 231, 37]];

function rampAt(part) {
  const at = Math.max(0, Math.min(1, part)) * (ramp.length - 1);
  const i = Math.min(Math.floor(at), ramp.length - 2);
  return ramp[i].map((from, c) => Math.round(from + (ramp[i + 1][c] - from) * (at - i)));
}

/** From the smallest value to the 99th percentile, so that one peak does not hide the rest. */
export function scaleOf(values) {
  const all = values.flat().filter((value) => value !== null).sort((a, b) => a - b);
  if (all.length === 0) return {low: 0, high: 1, clipped: false};
  const high = all[Math.floor((all.length - 1) * 0.99)];
  return {low: all[0], high: high > all[0] ? high : all[all.length - 1], clipped: high < all[all.length - 1]};
}

export function drawHeat(canvas, {ranks, steps, values}) {
  const scale = scaleOf(values);
  if (ranks.length === 0 || steps.length === 0) return scale;
  canvas.style.height = `${Math.max(60, Math.min(480, ranks.length * 22))}px`;
  canvas.width = steps.length;
  canvas.height = ranks.length;  // CSS scales it, without smoothing
  const context = canvas.getContext("2d");
  const image = context.createImageData(steps.length, ranks.length);
  for (let rank = 0; rank < ranks.length; ++rank) {
    for (let step = 0; step < steps.length; ++step) {
      const value = values[rank][step];
      const at = 4 * (rank * steps.length + step);
      if (value === null) continue;
      const [r, g, b] = rampAt(scale.high > scale.low ? (value - scale.low) / (scale.high - scale.low) : 0);
      image.data.set([r, g, b, 255], at);
    }
  }
  context.putImageData(image, 0, 0);
  return scale;
}

/** What is at a place of the map; x and y from 0 to 1. */
export function heatTextAt({ranks, steps, values}, x, y) {
  const step = Math.max(0, Math.min(steps.length - 1, Math.floor(x * steps.length)));
  const rank = Math.max(0, Math.min(ranks.length - 1, Math.floor(y * ranks.length)));
  const value = values[rank][step];
  return `rank ${ranks[rank]}, step ${numberText(steps[step])}: ${value === null ? "no value" : numberText(value)}`;
}
