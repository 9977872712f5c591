// Numbers as people read them, and what follows from two looks at counters.

const integer = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** Three digits at most, with a letter for thousands, millions and so on. */
function scaled(value, step, units) {
  let unit = 0;
  while (Math.abs(value) >= step && unit < units.length - 1) {
    value /= step;
    unit += 1;
  }
  const digits = value === 0 || value >= 100 || (unit === 0 && Number.isInteger(value)) ? 0 : value >= 10 ? 1 : 2;
  return [value.toFixed(digits), units[unit]];
}

const unknown = "–";
const isKnown = (value) => value !== null && value !== undefined && Number.isFinite(value);

export const whole = (value) => (isKnown(value) ? integer.format(value) : unknown);

export function count(value) {
  if (!isKnown(value)) return unknown;
  const [number, unit] = scaled(value, 1000, ["", "k", "M", "G", "T"]);
  return number + unit;
}

export function bytes(value) {
  if (!isKnown(value)) return unknown;
  return scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]).join(" ");
}

export const perSecond = (value) => (isKnown(value) ? `${count(value)}/s` : unknown);
export const bytesPerSecond = (value) => (isKnown(value) ? `${bytes(value)}/s` : unknown);
export const percent = (share) => (isKnown(share) ? `${(100 * share).toFixed(share < 0.0995 ? 2 : 1)} %` : unknown);
export const factor = (value) => (isKnown(value) ? value.toFixed(value < 10 ? 2 : 1) : unknown);

/** A short time, of nanoseconds. */
export function time(ns) {
  if (!isKnown(ns)) return unknown;
  return scaled(ns, 1000, ["ns", "µs", "ms", "s"]).join(" ");
}

/** A long time, of seconds. */
export function span(seconds) {
  if (!isKnown(seconds)) return unknown;
  const steps = [[86400 * 365, "years"], [86400, "days"], [3600, "h"], [60, "min"]];
  const step = steps.find(([length]) => seconds >= 2 * length);
  return step ? `${Math.floor(seconds / step[0])} ${step[1]}` : `${Math.floor(seconds)} s`;
}

/** What a counter has grown by in a second; null if it began anew. */
export function rate(now, before, seconds) {
  return seconds > 0 && now >= before ? (now - before) / seconds : null;
}

/** A share of a whole; null of nothing. */
export const share = (part, all) => (all > 0 ? part / all : null);

/** Histograms of one kind of call, of all tenants or of one, added up: bound in nanoseconds to calls. */
export function buckets(tenants, operation, tier) {
  const sum = new Map();
  for (const tenant of tenants) {
    for (const latency of tenant.latencies) {
      if (latency.operation !== operation || latency.tier !== tier) continue;
      for (const [bound, calls] of latency.buckets) sum.set(bound, (sum.get(bound) ?? 0) + calls);
    }
  }
  return sum;
}

/** The time in which this share of the calls between two looks has ended, in nanoseconds; null without calls. */
export function quantile(now, before, wanted) {
  const bounds = [...now.keys()].sort((a, b) => a - b);
  const calls = bounds.map((bound) => now.get(bound) - (before.get(bound) ?? 0));
  const all = calls.reduce((sum, one) => sum + one, 0);
  if (all <= 0) return null;
  let seen = 0;
  for (let at = 0; at < bounds.length; at += 1) {
    seen += calls[at];
    if (seen >= wanted * all) return bounds[at];
  }
  return bounds.at(-1) ?? null;
}
