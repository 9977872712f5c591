// Charts: lines over the last minutes, and a map of cells. Everything that is drawn is also there as a table.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children; texts become texts, whatever is in them. */
export function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

function drawn(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

/** A table of a head and rows of cells. Numbers stand to the right. */
export function table(caption, head, rows) {
  const cell = (value, at) => element(at === 0 ? "th" : "td", at === 0 ? { scope: "row" } : { class: "number" }, String(value));
  return element("table", {},
    caption === null ? null : element("caption", {}, caption),
    element("thead", {}, element("tr", {}, ...head.map((text, at) => element("th", { scope: "col", class: at === 0 ? null : "number" }, text)))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map(cell)))));
}

/** Seconds ago that are written below a chart of so many minutes, where there is room for many or for few. */
const TIMES = {
  many: { 1: [0, 15, 30, 45, 60], 2: [0, 30, 60, 90, 120], 5: [0, 60, 120, 180, 240, 300] },
  few: { 1: [0, 30, 60], 2: [0, 60, 120], 5: [0, 120, 300] },
};

/** Numbers at which lines across a chart are drawn: a few, and round. */
function ticks(low, high, log, base) {
  if (log) {
    const all = [];
    for (let at = 10 ** Math.floor(Math.log10(low)); at <= high * 1.001; at *= 10) if (at >= low) all.push(at);
    return all;
  }
  const rough = (high - low) / 4 || 1;
  // Round in thousands, or in KiB: within them, 1, 2 and 5 are.
  const unit = base ** Math.max(0, Math.floor(Math.log(rough) / Math.log(base)));
  const magnitude = unit * 10 ** Math.floor(Math.log10(rough / unit));
  const step = [1, 2, 2.5, 5, 10].map((it) => it * magnitude).find((it) => it >= rough);
  const all = [];
  for (let at = low; at <= high + step / 1000; at += step) all.push(at);
  return all;
}

/**
 * A chart in `figure` of some series over time, of five minutes at most. `points` are objects with `at` in milliseconds and a value for each
 * series, null where there is none.
 */
export class Chart {
  constructor(figure, { title, note, series, format, log = false, stacked = false, most = null, base = 1000 }) {
    Object.assign(this, { figure, title, series, format, log, stacked, most, base, spanMs: 60000 });
    this.points = [];
    this.cursor = null;
    this.legend = element("ul", { class: "legend" });
    this.values = new Map();
    for (const one of series) {
      const value = element("b", {});
      const key = drawn("svg", { class: "key", viewBox: "0 0 22 10", "aria-hidden": "true" },
        drawn("path", { d: "M1 5H21", class: `line ${one.className}` }));
      this.legend.append(element("li", {}, key, `${one.label} `, value));
      this.values.set(one.key, value);
    }
    this.when = element("span", { class: "when" });
    this.drawing = drawn("svg", { class: "chart", role: "img", tabindex: "0" });
    this.rows = element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": `${title} as a table` });
    this.details = element("details", {}, element("summary", {}, "As a table"), this.rows);
    figure.append(element("h3", {}, title, " ", this.when), this.legend, this.drawing, element("figcaption", {}, note), this.details);
    this.details.addEventListener("toggle", () => this.tabulate());
    this.drawing.addEventListener("pointermove", (event) => this.point(event));
    this.drawing.addEventListener("pointerleave", () => this.move(null));
    this.drawing.addEventListener("blur", () => this.move(null));
    this.drawing.addEventListener("keydown", (event) => this.key(event));
    // Not within the notice itself: drawing changes sizes again.
    new ResizeObserver(() => requestAnimationFrame(() => this.draw())).observe(figure);
  }

  update(points) {
    this.points = points;
    // As long as little is known, it is drawn larger.
    const known = points.length > 0 ? this.end() - points[0].at : 0;
    this.spanMs = [1, 2, 5].map((minutes) => minutes * 60000).find((span) => known <= span) ?? 300000;
    this.draw();
    this.tabulate();
  }

  point(event) {
    const box = this.drawing.getBoundingClientRect();
    const at = this.end() - this.spanMs * (1 - (event.clientX - box.left - this.left) / (this.width - this.left - this.right));
    this.move(this.points.reduce((best, one) => (best === null || Math.abs(one.at - at) < Math.abs(best - at) ? one.at : best), null));
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") this.move(null);
    if (!step || this.points.length === 0) return;
    event.preventDefault();
    const here = this.points.findIndex((one) => one.at === this.cursor);
    const next = here < 0 ? this.points.length - 1 : Math.min(Math.max(here + step, 0), this.points.length - 1);
    this.move(this.points[next].at);
  }

  move(cursor) {
    if (cursor === this.cursor) return;
    this.cursor = cursor;
    this.draw();
  }

  end() {
    return this.points.at(-1)?.at ?? 0;
  }

  /** The values of a series, one on top of the other where they are stacked. */
  heights() {
    return this.points.map((point) => {
      let below = 0;
      const own = {};
      for (const { key } of this.series) {
        const value = point[key];
        own[key] = value === null ? null : [this.stacked ? below : 0, (this.stacked ? below : 0) + value];
        below += value ?? 0;
      }
      return own;
    });
  }

  draw() {
    const width = Math.max(this.figure.clientWidth, 240);
    const height = width < 420 ? 180 : 210;
    const [top, bottom] = [10, 24];
    const heights = this.heights();
    const known = heights.flatMap((own) => Object.values(own)).filter((it) => it !== null).map((it) => it[1]).filter((it) => !this.log || it > 0);
    const high = this.most ?? Math.max(...known, this.log ? 1e6 : 1) * (this.log ? 1.5 : 1.05);
    const low = this.log ? Math.min(1e3, 10 ** Math.floor(Math.log10(Math.min(...known, 1e3)))) : 0;
    const scale = this.log ? (value) => Math.log(Math.max(value, low) / low) / Math.log(high / low) : (value) => value / high;
    const marks = ticks(low, high, this.log, this.base).map((tick) => [tick, this.format(tick)]);
    const longest = Math.max(...marks.map(([, label]) => label.length));
    Object.assign(this, { width, left: 12 + 7 * longest, right: 10 });
    const y = (value) => top + (height - top - bottom) * (1 - scale(value));
    const x = (at) => this.left + (width - this.left - this.right) * (1 - (this.end() - at) / this.spanMs);
    const parts = [];
    for (const [tick, label] of marks) {
      parts.push(drawn("path", { class: "grid", d: `M${this.left} ${y(tick).toFixed(1)}H${width - this.right}` }));
      parts.push(drawn("text", { x: this.left - 7, y: (y(tick) + 4).toFixed(1), "text-anchor": "end" }, label));
    }
    for (const ago of TIMES[width < 420 ? "few" : "many"][this.spanMs / 60000]) {
      const place = this.left + (width - this.left - this.right) * (1 - (ago * 1000) / this.spanMs);
      const anchor = ago === 0 ? "end" : ago * 1000 === this.spanMs ? "start" : "middle";
      const label = ago === 0 ? "now" : ago % 60 === 0 ? `−${ago / 60} min` : `−${ago} s`;
      parts.push(drawn("text", { x: place, y: height - 6, "text-anchor": anchor }, label));
    }
    for (const { key, className } of this.series) parts.push(...this.line(heights, key, className, x, y));
    if (this.cursor !== null && this.cursor >= this.end() - this.spanMs) {
      parts.push(drawn("path", { class: "cursor", d: `M${x(this.cursor).toFixed(1)} ${top}V${height - bottom}` }));
    }
    this.drawing.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.drawing.replaceChildren(...parts);
    this.tell();
  }

  /** The line of a series, with a gap where nothing is known, and the area below it where series are stacked. */
  line(heights, key, className, x, y) {
    const runs = [];
    let run = [];
    this.points.forEach((point, at) => {
      const own = heights[at][key];
      if (own === null) {
        runs.push(run);
        run = [];
      } else if (point.at >= this.end() - this.spanMs) {
        run.push([x(point.at), y(own[1]), y(own[0])]);
      }
    });
    runs.push(run);
    const path = (all) => all.map(([left, high]) => `${left.toFixed(1)} ${high.toFixed(1)}`).join("L");
    return runs.filter((it) => it.length > 0).flatMap((it) => {
      // A single look is drawn as a short line, or nobody would see it.
      const shown = it.length === 1 ? [[it[0][0] - 2, it[0][1], it[0][2]], it[0]] : it;
      const line = drawn("path", { class: `line ${className}`, d: `M${path(shown)}` });
      const below = [...shown].reverse().map(([left, , low]) => [left, low]);
      return this.stacked ? [drawn("path", { class: `area ${className}`, d: `M${path(shown)}L${path(below)}Z` }), line] : [line];
    });
  }

  /** Writes the values at the cursor, or the latest, beside the names. */
  tell() {
    const point = (this.cursor !== null && this.points.find((one) => one.at === this.cursor)) || this.points.at(-1);
    const said = this.series.map(({ key, label }) => {
      const text = this.format(point?.[key] ?? null);
      this.values.get(key).textContent = text;
      return `${label} ${text}`;
    });
    const ago = point ? Math.round((this.end() - point.at) / 1000) : 0;
    this.when.textContent = this.cursor !== null && point ? `${ago} s ago` : "";
    this.drawing.setAttribute("aria-label", `${this.title}: ${said.join(", ")}. Arrow keys go back in time.`);
  }

  tabulate() {
    if (!this.details.open) return;
    const rows = this.points.slice(-60).reverse().map((point) => [
      new Date(point.at).toLocaleTimeString("en-GB"),
      ...this.series.map(({ key }) => this.format(point[key])),
    ]);
    this.rows.replaceChildren(table(null, ["Time", ...this.series.map((one) => one.label)], rows));
  }
}

/** Cells in rows, each with a class and a paleness from 0 to 1. */
export function cellMap(label, cells, width) {
  const side = cells.length > 1500 ? 10 : cells.length > 400 ? 14 : 18;
  const columns = Math.max(1, Math.floor(width / side));
  const rows = Math.ceil(cells.length / columns);
  const drawing = drawn("svg", { class: "map", role: "img", "aria-label": label, viewBox: `0 0 ${columns * side} ${rows * side}`, width: columns * side, height: rows * side });
  cells.forEach(({ className, paleness, title }, at) => {
    const inset = className.includes("active") ? 1.5 : 0.5;
    drawing.append(drawn("rect", {
      class: `cell ${className}`,
      x: (at % columns) * side + inset,
      y: Math.floor(at / columns) * side + inset,
      width: side - 2 * inset,
      height: side - 2 * inset,
      "fill-opacity": (1 - 0.78 * paleness).toFixed(2),
    }, drawn("title", {}, title)));
  });
  return drawing;
}

/** Parts of a whole, side by side. */
export function bar(label, parts, width) {
  const all = parts.reduce((sum, part) => sum + part.size, 0) || 1;
  const drawing = drawn("svg", { class: "bar", role: "img", "aria-label": label, viewBox: `0 0 ${width} 18`, width, height: 18 });
  let left = 0;
  for (const { className, size, title } of parts) {
    const own = Math.max((size / all) * width, 1);
    drawing.append(drawn("rect", { class: `cell ${className}`, x: left.toFixed(1), y: 0, width: own.toFixed(1), height: 18 }, drawn("title", {}, title)));
    left += own;
  }
  return drawing;
}
