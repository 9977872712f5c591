// The page: asks the server again and again, and shows what it says. Nothing of what comes is ever read as markup.

import { Chart, bar, cellMap, element, table } from "./charts.js";
import * as show from "./numbers.js";

const find = (id) => document.getElementById(id);
const calm = matchMedia("(prefers-reduced-motion: reduce)");
/** So long are looks kept, and drawn. */
const SPAN_MS = 5 * 60 * 1000;
/** Latencies are those of so many looks. */
const LOOKS = 10;
/** Each so many looks the slower answers are asked for as well. */
const RARELY = 5;

const state = { looks: [], points: [], turn: 0, paused: false, lost: null, sort: { key: "name", down: false }, mapText: "", regions: null };

// ---- Asking

async function ask(path, options = {}) {
  const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(5000), ...options });
  if (!answer.ok) throw new Error(`${answer.status}: ${(await answer.text()).trim()}`);
  return answer;
}

const json = async (path) => (await ask(path)).json();

async function turn() {
  if (state.paused) return;
  try {
    const stats = await json("/api/stats");
    look(stats);
    if (state.turn % RARELY === 0) {
      const [regions, placement, slow, block] = await Promise.all(["/api/regions", "/api/placement", "/api/slowlog", "/api/block"].map(json));
      showMap(regions);
      showPlacement(placement);
      showBlockCaches(block.caches);
      showSlow(slow);
    }
    state.turn += 1;
    reached(stats);
  } catch (error) {
    lost(error);
  }
}

async function run() {
  await turn();
  const usual = calm.matches ? 5000 : 1000;
  setTimeout(run, state.lost ? 3000 : document.hidden ? 5000 : usual);
}

function reached(stats) {
  const place = find("state");
  const text = stats.server.not_ready ? `Reached. It takes no more requests: ${stats.server.not_ready}.` : state.paused ? "Paused." : "Reached, and ready.";
  if (state.lost !== null || place.textContent !== text) say(text, false);
  state.lost = null;
  find("about").textContent = `version ${stats.server.version}, up for ${show.span(stats.server.uptime_ms / 1000)}, ${stats.server.workers} ${stats.server.workers === 1 ? "thread" : "threads"}`;
}

function lost(error) {
  if (state.lost === null) {
    state.lost = Date.now();
    state.turn = 0;
    // A gap in the lines: nobody knows what was there.
    state.points.push({ at: Date.now() });
    const since = new Date(state.lost).toLocaleTimeString("en-GB");
    say(`The server cannot be reached since ${since} (${error.message}). What is shown is older; it is asked again and again.`, true);
  }
}

function say(text, isLost) {
  const place = find("state");
  place.replaceChildren(element("span", {}, text));
  place.className = isLost ? "lost" : "";
  document.body.classList.toggle("stale", isLost);
}

// ---- What happened between two looks

function look(stats) {
  const before = state.looks.at(-1);
  if (before && stats.server.uptime_ms < before.server.uptime_ms) {
    // It was started anew, and counts from nothing.
    state.looks = [];
    state.points.push({ at: Date.now() });
  }
  state.looks.push(stats);
  if (state.looks.length > LOOKS + 1) state.looks.shift();
  find("change").hidden = !stats.server.may_change;
  showTenantNames(stats.tenants);
  const last = state.looks.at(-2);
  if (last) {
    const point = pointOf(stats, last, state.looks[0]);
    state.points.push(point);
    state.points = state.points.filter((one) => one.at > Date.now() - SPAN_MS - 2000);
    showTiles(stats, point);
    const whole = state.points.map((one) => ({ ...empty, ...one }));
    for (const chart of charts) chart.update(whole);
  } else {
    showTiles(stats, empty);
  }
  showTenants(stats);
  showDrive(stats);
}

const sum = (tenants, of) => tenants.reduce((all, tenant) => all + of(tenant), 0);

function pointOf(stats, before, oldest) {
  const seconds = (stats.server.uptime_ms - before.server.uptime_ms) / 1000;
  const grown = (of) => {
    const [now, then] = [sum(stats.tenants, of), sum(before.tenants, of)];
    return now >= then ? now - then : null;
  };
  const [gets, dram, soc, loc, array] = ["gets", "dram_hits", "soc_hits", "loc_hits", "array_hits"].map((key) => grown((it) => it[key]));
  const point = {
    at: Date.now(),
    dram: show.share(dram, gets),
    soc: show.share(soc, gets),
    loc: show.share(loc, gets),
    array: show.share(array, gets),
    hits: show.share(dram + soc + loc + array, gets),
    gets: gets === null ? null : gets / seconds,
    sets: show.rate(sum(stats.tenants, (it) => it.sets), sum(before.tenants, (it) => it.sets), seconds),
    deletes: show.rate(sum(stats.tenants, (it) => it.deletes), sum(before.tenants, (it) => it.deletes), seconds),
    admitted: show.rate(sum(stats.tenants, (it) => it.admitted_bytes), sum(before.tenants, (it) => it.admitted_bytes), seconds),
    written: show.rate(sum(stats.tenants, (it) => it.flash_written_bytes), sum(before.tenants, (it) => it.flash_written_bytes), seconds),
  };
  // Another tier may be chosen later: all of them are kept.
  for (const tier of ["dram", "flash", "miss"]) {
    point[`${tier}Times`] = [0.5, 0.99, 0.999].map((wanted) => latency(stats, oldest, tier, wanted));
  }
  [point.p50, point.p99, point.p999] = point[`${tierChosen()}Times`];
  return point;
}

function latency(now, then, tier, wanted) {
  return show.quantile(show.buckets(now.tenants, "get", tier), show.buckets(then.tenants, "get", tier), wanted);
}

// ---- Tiles and charts

const empty = { dram: null, soc: null, loc: null, array: null, hits: null, gets: null, sets: null, deletes: null, admitted: null, written: null, p50: null, p99: null, p999: null };

function showTiles(stats, point) {
  const all = (key) => sum(stats.tenants, (it) => it[key]);
  const hits = all("dram_hits") + all("soc_hits") + all("loc_hits") + all("array_hits");
  const pending = stats.rings.reduce((sum, ring) => sum + ring.pending_pieces, 0);
  const tiles = [
    ["Requests", show.perSecond(point.gets === null ? null : point.gets + point.sets + point.deletes), `${show.count(all("gets") + all("sets") + all("deletes"))} since the start`],
    ["Hit ratio", show.percent(point.hits), `${show.percent(show.share(hits, all("gets")))} since the start`],
    ["Get in DRAM, p99", show.time(point.dramTimes?.[1]), `p50 ${show.time(point.dramTimes?.[0])}`],
    ["Get on flash, p99", show.time(point.flashTimes?.[1]), `p50 ${show.time(point.flashTimes?.[0])}`],
    ["Items", show.count(all("items")), `${show.count(all("flash_items"))} on flash, ${show.count(all("dram_only_items"))} in DRAM alone`],
    ["Connections", show.whole(stats.server.connections), `of ${show.whole(stats.server.connections_max)}`],
    ["Flash requests", show.whole(pending), "under way now"],
  ];
  find("tiles").replaceChildren(...tiles.map(([name, value, note]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, value), element("dd", { class: "note" }, note))));
}

const tierSelect = element("select", { "aria-label": "Which gets" },
  element("option", { value: "dram" }, "answered from DRAM"),
  element("option", { value: "flash" }, "answered from flash"),
  element("option", { value: "miss" }, "not found"));
const tierChosen = () => tierSelect.value;

const charts = [
  new Chart(find("hits"), {
    title: "Hit ratio by tier",
    note: "Gets that each tier answered, one on top of the other.",
    series: [
      { key: "dram", label: "DRAM", className: "first" },
      { key: "soc", label: "small objects on flash", className: "soc" },
      { key: "loc", label: "large ones", className: "loc" },
      { key: "array", label: "those of the array", className: "array" },
    ],
    format: show.percent, stacked: true, most: 1,
  }),
  new Chart(find("requests"), {
    title: "Requests",
    note: "Of all tenants together, each second.",
    series: [
      { key: "gets", label: "gets", className: "first" },
      { key: "sets", label: "sets", className: "second" },
      { key: "deletes", label: "deletes", className: "third" },
    ],
    format: show.perSecond,
  }),
  new Chart(find("latency"), {
    title: "Latency of gets",
    note: `Within the cache, of the last ${LOOKS} looks; at most a fourth too high. The scale is logarithmic.`,
    series: [
      { key: "p50", label: "p50", className: "first" },
      { key: "p99", label: "p99", className: "second" },
      { key: "p999", label: "p99.9", className: "fourth" },
    ],
    format: show.time, log: true,
  }),
  new Chart(find("writes"), {
    title: "Writes to flash",
    note: "Bytes of objects that admission let through, and all that was written for them.",
    series: [
      { key: "admitted", label: "admitted", className: "first" },
      { key: "written", label: "written", className: "second" },
    ],
    format: show.bytesPerSecond, base: 1024,
  }),
];
find("latency").querySelector("h3").append(" ", tierSelect);
tierSelect.addEventListener("change", () => {
  for (const point of state.points) {
    [point.p50, point.p99, point.p999] = point[`${tierChosen()}Times`] ?? [null, null, null];
  }
  charts[2].update(state.points.map((one) => ({ ...empty, ...one })));
});

// ---- Tenants

const columns = [
  ["name", "Tenant", (it) => it.now.name, String],
  ["items", "Items", (it) => it.now.items, show.count],
  ["dram", "DRAM", (it) => it.now.dram_used_bytes, show.bytes],
  ["flash", "Flash", (it) => it.now.flash_bytes, show.bytes],
  ["gets", "Gets", (it) => it.rate((one) => one.gets), show.perSecond],
  ["sets", "Sets", (it) => it.rate((one) => one.sets), show.perSecond],
  ["hits", "Hit ratio", (it) => it.ratio(["dram_hits", "soc_hits", "loc_hits", "array_hits"]), show.percent],
  ["dram_hits", "DRAM hits", (it) => it.ratio(["dram_hits"]), show.percent],
  ["p99", "Get p99", (it) => it.latency(), show.time],
  ["evicted", "Evicted", (it) => it.rate((one) => total(one.evicted)), show.perSecond],
  ["dropped", "Dropped", (it) => it.rate((one) => total(one.dropped)), show.perSecond],
  ["alwa", "ALWA", (it) => it.now.alwa, show.factor],
  ["total_gets", "Gets in all", (it) => it.now.gets, show.whole],
];
const total = (counts) => Object.values(counts).reduce((all, one) => all + one, 0);

function showTenants(stats) {
  const oldest = state.looks[0];
  const seconds = (stats.server.uptime_ms - oldest.server.uptime_ms) / 1000;
  const rows = stats.tenants.map((now) => {
    const before = oldest.tenants.find((it) => it.name === now.name) ?? now;
    const grown = (keys) => keys.reduce((all, key) => all + now[key] - before[key], 0);
    return {
      now,
      rate: (of) => show.rate(of(now), of(before), seconds),
      ratio: (keys) => show.share(grown(keys), grown(["gets"])),
      latency: () => {
        const tiers = ["dram", "flash", "miss"];
        const all = (it) => {
          const merged = new Map();
          for (const tier of tiers) for (const [bound, calls] of show.buckets([it], "get", tier)) merged.set(bound, (merged.get(bound) ?? 0) + calls);
          return merged;
        };
        return show.quantile(all(now), all(before), 0.99);
      },
    };
  });
  const { key, down } = state.sort;
  const value = columns.find(([known]) => known === key)[2];
  const order = (a, b) => {
    const [x, y] = [value(a), value(b)];
    const way = typeof x === "string" ? x.localeCompare(y) : (x ?? -1) - (y ?? -1);
    return down ? -way : way;
  };
  rows.sort(order);
  const body = element("tbody", {}, ...rows.map((row) => element("tr", {}, ...columns.map(([known, , of, format]) => known === "name"
    ? element("th", { scope: "row", class: "name", title: of(row) }, format(of(row)))
    : element("td", { class: "number", "data-column": known }, format(of(row)))))));
  const old = find("tenants").querySelector("tbody");
  if (old) old.replaceWith(body);
  else find("tenants").replaceChildren(element("table", {}, tenantHead(), body));
}

function tenantHead() {
  const head = element("thead", {}, element("tr", {}, ...columns.map(([key, label]) => {
    const button = element("button", { type: "button" }, label);
    const cell = element("th", { scope: "col", class: key === "name" ? null : "number" }, button);
    cell.dataset.key = key;
    button.addEventListener("click", () => {
      state.sort = { key, down: state.sort.key === key ? !state.sort.down : key !== "name" };
      mark(head);
      showTenants(state.looks.at(-1));
    });
    return cell;
  })));
  mark(head);
  return head;
}

function mark(head) {
  for (const cell of head.querySelectorAll("th")) {
    if (cell.dataset.key === state.sort.key) cell.setAttribute("aria-sort", state.sort.down ? "descending" : "ascending");
    else cell.removeAttribute("aria-sort");
  }
}

// ---- Drive

function showDrive(stats) {
  const facts = [];
  const add = (name, text) => facts.push(element("dt", {}, name), element("dd", {}, text));
  const admitted = sum(stats.tenants, (it) => it.admitted_bytes);
  const written = sum(stats.tenants, (it) => it.flash_written_bytes);
  if (sum(stats.tenants, (it) => it.flash_bytes) === 0) {
    find("drive").replaceChildren(element("p", { class: "absent" }, "There is no flash: everything is in DRAM."));
    return;
  }
  add("ALWA", `${show.factor(admitted > 0 ? written / admitted : null)}: ${show.bytes(written)} written for ${show.bytes(admitted)} of objects, since the start`);
  if (stats.drives.length === 0) add("DLWA", "unknown: below is a file, or a drive that is not asked");
  for (const drive of stats.drives) {
    add(`DLWA of ${drive.path}`, `${show.factor(drive.recent_dlwa)} in the last minutes, ${show.factor(drive.dlwa)} since the start${drive.predicted_dlwa === null ? "" : `; a formula predicts ${show.factor(drive.predicted_dlwa)}`}`);
    if (drive.used_percent !== null) add(`Life of ${drive.path}`, `${drive.used_percent} % used up, says the drive`);
    for (const unsaid of drive.unavailable) add(`Not known of ${drive.path}`, unsaid);
  }
  const life = stats.drive_life;
  if (life === null) add("Write budget", "not known: set endurance to what the drive is rated for");
  else {
    add("Write budget", `${show.bytes(life.left_bytes)} left of ${show.bytes(life.left_bytes + life.written_bytes)}`);
    add("At this rate", life.days_left === null ? "not known yet" : `${show.bytes(life.bytes_per_day)} a day: it lasts ${show.span(life.days_left * 86400)}`);
  }
  add("After a crash", stats.tenants.every((it) => it.crash_safe) ? "flash is found again" : "flash of some tenant starts empty");
  for (const tenant of stats.tenants) if (tenant.last_device_error) add(`Last error, ${tenant.name}`, tenant.last_device_error);
  find("drive").replaceChildren(element("dl", { class: "facts" }, ...facts));
}

// ---- Map, plan, slow requests

const classOf = (stream) => (stream === null ? "dead" : stream === "LOC" ? "loc" : stream.startsWith("LOC, TTL") ? "first" : stream.startsWith("LOC") ? "fourth" : stream.startsWith("array, tables") ? "fourth" : stream.startsWith("array") ? "array" : stream.startsWith("SOC log") ? "first" : stream.startsWith("SOC") ? "soc" : "metadata");

function classOfCell(cell) {
  if (cell.state === "free" || cell.state === "expired") return "free";
  if (cell.state === "retired") return "retired";
  return classOf(cell.stream) + (cell.state === "active" ? " active" : "");
}

function showMap(regions) {
  const place = find("map");
  const width = Math.max(place.clientWidth, 280);
  const text = JSON.stringify([width, regions]);
  if (text === state.mapText) return;
  [state.mapText, state.regions] = [text, regions];
  const wasOpen = [...place.querySelectorAll("details")].map((it) => it.open);
  const shards = regions.tenants.flatMap((tenant) => tenant.shards.map((shard, number) => ({ tenant: tenant.name, number, shard })));
  if (shards.length === 0) {
    place.replaceChildren(element("p", { class: "absent" }, "There is no flash to draw."));
    return;
  }
  place.replaceChildren(mapLegend(), ...shards.map((one, at) => shardMap(one, width, wasOpen[at] ?? false)));
}

/** The regions of an engine: what they are, a map, and rows of a table. */
function regionMap(tenant, engine, map, width) {
  const held = map.cells.filter((it) => it.state === "sealed" || it.state === "active" || it.state === "unknown");
  const order = [...held].sort((a, b) => a.behind - b.behind);
  const rank = new Map(order.map((cell, at) => [cell, order.length > 1 ? at / (order.length - 1) : 0]));
  const cells = map.cells.map((cell, at) => ({
    className: classOfCell(cell),
    paleness: rank.get(cell) ?? 0,
    title: `region ${at * map.regions_per_cell}: ${cell.state}${cell.stream ? `, ${cell.stream}, handle ${cell.handle}` : ""}${cell.age_s === null ? "" : `, ${show.span(cell.age_s)} old`}`,
  }));
  const groups = new Map();
  for (const cell of map.cells) {
    const name = cell.stream === null ? (cell.state === "sealed" || cell.state === "unknown" ? "of before the start" : "empty") : `${cell.stream}, handle ${cell.handle}`;
    const group = groups.get(name) ?? { cells: 0, oldest: null };
    group.cells += 1;
    if (cell.age_s !== null) group.oldest = Math.max(group.oldest ?? 0, cell.age_s);
    groups.set(name, group);
  }
  const rows = [...groups].map(([name, group]) => [name, show.whole(group.cells * map.regions_per_cell), show.bytes(group.cells * map.regions_per_cell * map.region_bytes), show.span(group.oldest)]);
  const many = map.regions_per_cell > 1 ? `; a cell is ${map.regions_per_cell} of them, coloured as the newest` : "";
  const lead = element("p", { class: "lead" }, `${show.whole(map.regions)} regions of ${show.bytes(map.region_bytes)}${engine}, ${show.whole(held.length * map.regions_per_cell)} in use${many}.`);
  return { rows, drawn: [lead, cellMap(`Regions of ${tenant}${engine}: ${rows.map((row) => `${row[1]} ${row[0]}`).join("; ")}`, cells, width)] };
}

function shardMap({ tenant, number, shard }, width, open) {
  const maps = [];
  if (shard.regions > 0 || shard.array === null) maps.push(regionMap(tenant, "", shard, width));
  if (shard.array !== null) maps.push(regionMap(tenant, " of the array", shard.array, width));
  const rows = maps.flatMap((map) => map.rows);
  const parts = shard.parts.map((part) => ({ className: classOf(part.part === "tombstones" ? "metadata" : part.part), size: part.bytes, title: `${part.part}: ${show.bytes(part.bytes)}, handle ${part.handle}` }));
  const partRows = shard.parts.map((part) => [part.part, `handle ${part.handle}`, show.bytes(part.bytes), ""]);
  const details = element("details", {}, element("summary", {}, "As a table"),
    element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": `Flash of ${tenant} as a table` },
      table(null, ["What", "Regions, or handle", "Bytes", "Oldest"], [...partRows, ...rows])));
  details.open = open;
  return element("div", { class: "shard" },
    element("h3", { class: "name" }, number > 0 ? `${tenant}, device ${number + 1}` : tenant),
    bar(`Parts of the flash of ${tenant}: ${parts.map((it) => it.title).join("; ")}`, parts, width),
    ...maps.flatMap((map) => map.drawn),
    details);
}

function mapLegend() {
  const swatch = (className, label) => {
    const cell = cellMap("", [{ className, paleness: 0, title: "" }], 16);
    cell.setAttribute("class", "swatch");
    cell.setAttribute("aria-hidden", "true");
    return element("li", {}, cell, label);
  };
  return element("ul", { class: "legend" },
    swatch("soc", "small objects"), swatch("loc", "large objects"), swatch("array", "objects of the array"), swatch("first", "with a time to live, or log of small ones"), swatch("fourth", "kept, or tables of the array"),
    swatch("metadata", "metadata"), swatch("dead", "of before the start"), swatch("dead active", "being filled"), swatch("free", "empty"), swatch("retired", "given up"));
}

function showPlacement(placement) {
  showWarnings(placement.warnings);
  const rows = placement.tenants.flatMap((tenant) => tenant.shards.flatMap((shard, number) => shard.streams.map((stream) => [
    tenant.shards.length > 1 ? `${tenant.name}, device ${number + 1}` : tenant.name, stream.stream, stream.handle, shard.path, stream.reason,
    stream.shared_with.join(", ") || "no other", show.percent(stream.write_share), show.bytes(stream.handle_written_bytes),
    ...eventCells(stream.events),
  ])));
  if (rows.length === 0) {
    find("placement").replaceChildren(element("p", { class: "absent" }, "There is no flash, and nothing to be placed."));
    return;
  }
  const mixed = placement.handles.filter((it) => it.streams.length === 0 && Object.keys(it.events.counts).length > 0);
  rows.push(...mixed.map((it) => [it.drive, it.handle === null ? "of several handles, or of others" : "of no stream", it.handle ?? "–", "", "", "", "", "", ...eventCells(it.events)]));
  const head = ["Tenant", "Stream", "Handle", "Path", "Why", "Shared with", "Part of the writes", "Written with it", "Events", "Relocated", "Last event"];
  find("placement").replaceChildren(textTable(head, rows, [2, 6, 7], { 4: "wrapped", 5: "wrapped", 8: "wrapped" }));
}

/** What a drive tells of a handle: its events, what it moved, and when it last told something. */
function eventCells(events) {
  const counts = Object.entries(events.counts).map(([name, count]) => `${show.whole(count)} ${name.replaceAll("_", " ")}`);
  return [
    counts.join(", ") || "none",
    events.relocated_units === 0 ? "nothing" : `${show.whole(events.relocated_units)} units, ${show.bytes(events.relocated_bytes)}`,
    events.last_read_ms === null ? "–" : new Date(events.last_read_ms).toLocaleString("en-GB"),
  ];
}

function showWarnings(warnings) {
  const place = find("placement-warnings");
  const text = warnings.join("\n");
  if (place.dataset.text === text) return;
  place.dataset.text = text;
  place.replaceChildren(...warnings.map((warning) => element("li", {}, warning)));
}

function showBlockCaches(caches) {
  find("block").hidden = caches.length === 0;
  const head = ["Cache", "State", "Mode", "Cached", "Dirty", "Reads", "Hits", "Hit p99", "Miss p99", "Writes", "Hits", "p99"];
  const rows = caches.map(({ cache, error, status, stats }) => {
    if (error !== null) return [cache, error, ...head.slice(2).map(() => show.whole(null))];
    const p99 = (operation, by) => stats.latencies.find((it) => it.operation === operation && it.served_by === by)?.p99_ns;
    return [
      cache, stateOf(status.running), status.mode,
      `${show.bytes(stats.usage.occupied_bytes)} of ${show.bytes(stats.usage.capacity_bytes)}`, show.bytes(stats.usage.dirty_bytes),
      show.count(stats.reads.total), show.percent(stats.reads.hit_ratio), show.time(p99("read", "cache")), show.time(p99("read", "core")),
      show.count(stats.writes.total), show.percent(stats.writes.hit_ratio), show.time(p99("write", null)),
    ];
  });
  find("block-caches").replaceChildren(textTable(head, rows, head.map((_, at) => at).slice(3), { 1: "wrapped" }));
}

/** How a block cache is that has answered. */
function stateOf(running) {
  if (!running.healthy) return "its device has failed";
  if (!running.attached) return "without a cache device";
  return running.unloaded_parts > 0 ? "serving, and loading" : "serving";
}

/** A table of texts; columns of these places are numbers. */
function textTable(head, rows, numbers, classes = {}) {
  const classOfColumn = (at) => [numbers.includes(at) ? "number" : "text", classes[at] ?? ""].join(" ").trim();
  return element("table", {},
    element("thead", {}, element("tr", {}, ...head.map((text, at) => element("th", { scope: "col", class: numbers.includes(at) ? "number" : null }, text)))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((text, at) => element(at === 0 ? "th" : "td",
      { scope: at === 0 ? "row" : null, class: at === 0 ? "name" : classOfColumn(at) }, String(text)))))));
}

function showSlow(slow) {
  find("slow-lead").textContent = slow.threshold_us === null
    ? "Not kept: slow_threshold is 0."
    : `What waited ${show.time(slow.threshold_us * 1000)} or longer, the newest first; ${show.whole(slow.seen)} since the start.`;
  if (slow.entries.length === 0) {
    find("slow").replaceChildren(element("p", { class: "absent" }, "There are none."));
    return;
  }
  const rows = slow.entries.slice(0, 50).map((entry) => [
    new Date(entry.at_ms).toLocaleTimeString("en-GB"), show.time(entry.took_us * 1000), entry.tenant, entry.protocol, entry.command,
    entry.key + (entry.key_bytes > 128 ? ` … (${show.whole(entry.key_bytes)} bytes)` : ""), entry.peer,
  ]);
  find("slow").replaceChildren(textTable(["At", "Took", "Tenant", "Protocol", "Command", "Key", "From"], rows, [1], { 2: "name", 5: "keytext" }));
}

// Cells are drawn for the width that there is.
new ResizeObserver(() => requestAnimationFrame(() => state.regions && showMap(state.regions))).observe(find("map"));

// ---- Switches and changes

const themes = ["system", "light", "dark"];

function kept(write) {
  // Storage may be refused, and then the choice lasts as long as the page.
  try {
    if (write !== undefined) localStorage.setItem("theme", write);
    return localStorage.getItem("theme");
  } catch {
    return write ?? null;
  }
}

function setTheme(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  find("theme").textContent = `Theme: ${theme}`;
}

setTheme(themes.includes(kept()) ? kept() : "system");
find("theme").addEventListener("click", () => {
  const now = document.documentElement.dataset.theme ?? "system";
  const next = themes[(themes.indexOf(now) + 1) % themes.length];
  kept(next);
  setTheme(next);
});

find("pause").addEventListener("click", () => {
  state.paused = !state.paused;
  find("pause").setAttribute("aria-pressed", String(state.paused));
  find("pause").textContent = state.paused ? "Go on" : "Pause";
  say(state.paused ? "Paused: the numbers stand still." : "Asking the server …", false);
});

let namesShown = "";

function showTenantNames(tenants) {
  const names = tenants.map((it) => it.name);
  const text = JSON.stringify(names);
  if (text === namesShown) return;
  namesShown = text;
  find("tenant").replaceChildren(...names.map((name) => element("option", { value: name }, name)));
}

async function change(path, done) {
  try {
    await ask(path, { method: "POST", headers: { Authorization: `Bearer ${find("token").value}` } });
    find("done").textContent = done;
    state.turn = 0;
  } catch (error) {
    find("done").textContent = `Not done: ${error.message}`;
  }
}

find("flush").addEventListener("click", () => {
  find("sure-text").textContent = `Forget all keys of ${find("tenant").value}?`;
  find("sure").hidden = false;
  find("sure-no").focus();
});
find("sure-no").addEventListener("click", () => {
  find("sure").hidden = true;
  find("flush").focus();
});
find("sure-yes").addEventListener("click", async () => {
  const tenant = find("tenant").value;
  find("sure").hidden = true;
  find("flush").focus();
  await change(`/api/flush?tenant=${encodeURIComponent(tenant)}`, `All keys of ${tenant} are forgotten.`);
});
find("tenant").addEventListener("change", () => { find("sure").hidden = true; });
// Enter in the field of the token does nothing, and leads nowhere.
find("changes").addEventListener("submit", (event) => event.preventDefault());
find("reset").addEventListener("click", () => change("/api/slowlog/reset", "The list of slow requests is empty."));

run();
