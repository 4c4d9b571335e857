// Puts the page together: classes of blocks and their colours, controls, tips.
"use strict";

// Classes sorts blocks into classes, one way or another, each with a colour.
class Classes {
  constructor(data) {
    this.data = data;
    this.ways = [{ name: "phase", make: () => this.byPhase() }, { name: "life", make: () => this.byLife() }, { name: "size", make: () => this.bySize() }];
    if (new Set(data.columns.stream).size > 1) this.ways.push({ name: "stream", make: () => this.byStream() });
    if (data.kind !== "plan") this.ways.push({ name: "plan", make: () => this.byPlan() });
    if (data.frames) this.ways.push({ name: "frame", make: () => this.byFrame() });
    this.use(data.marked || data.kind === "plan" ? "phase" : "life");
  }

  use(name) {
    this.name = name;
    Object.assign(this, this.ways.find((w) => w.name === name).make()); // of, names, variables
    this.cache = null;
  }

  byPhase() { return { of: this.data.columns.phase, names: this.data.phases, variables: this.data.phases.map((p, i) => (p === "set-up" ? "c0" : "c" + (i % 7 + 1))) }; }

  byStream() {
    const most = Math.max(...new Set(this.data.columns.stream), 0);
    const names = Array.from({ length: most + 1 }, (_, i) => "stream " + i);
    return { of: this.data.columns.stream, names, variables: names.map((_, i) => "c" + (i % 7 + 1)) };
  }

  byPlan() {
    const names = this.data.reasons.map((r) => r.split(":")[0]);
    return { of: this.data.columns.served, names, variables: ["c3", "c0", "c4", "c2", "c5", "c6"] };
  }

  // byFrame tells the seven places in the program apart that ask for the most bytes together.
  byFrame() {
    const { stack, size } = this.data.columns, bytes = new Map();
    const frame = (i) => (stack[i] > 0 ? this.data.frames[stack[i] - 1] : "");
    size.forEach((s, i) => frame(i) && bytes.set(frame(i), (bytes.get(frame(i)) ?? 0) + s));
    const names = [...bytes].sort((a, b) => b[1] - a[1]).slice(0, 7).map(([name]) => name);
    const of = size.map((s, i) => { const n = names.indexOf(frame(i)); return n < 0 ? names.length : n; });
    return { of, names: [...names, "elsewhere"], variables: [...names.map((_, i) => "c" + (i + 1)), "c0"] };
  }

  bySize() {
    const bounds = [1 << 20, 10 << 20, 50 << 20, 200 << 20, 2 ** 30];
    const of = this.data.columns.size.map((s) => { const i = bounds.findIndex((b) => s < b); return i < 0 ? 5 : i; });
    return { of, names: ["below 1 MiB", "1 to 10 MiB", "10 to 50 MiB", "50 to 200 MiB", "200 MiB to 1 GiB", "1 GiB and more"], variables: ["r0", "r1", "r2", "r3", "r4", "r5"] };
  }

  byLife() {
    const { from, life } = this.data.columns, steps = this.data.steps;
    const begins = steps.map((s) => s.begin);
    const stepAt = (event) => Math.max(below(begins, event) - 1, 0);
    const of = from.map((begin, i) => {
      if (life[i] === 0) return 0;
      const s = stepAt(begin), e = stepAt(begin + life[i]);
      if (e > s + 1) return 0;
      if (e > s) return 1;
      const share = life[i] / Math.max(steps[s].end - steps[s].begin, 1);
      return share > 0.25 ? 2 : share > 0.02 ? 3 : 4;
    });
    return { of, names: ["stays for several steps", "crosses into the next step", "a quarter of its step or more", "2 % of its step or more", "short-lived"], variables: ["c0", "c4", "c1", "c3", "c2"] };
  }

  colours() {
    return (this.cache ??= this.variables.map((name) => {
      const fill = rgb(style(name)), idle = rgb(style("none")), dark = [0, 0, 0];
      const bright = (fill[0] * 3 + fill[1] * 6 + fill[2]) / 10 > 140;
      const dim = mix(idle, fill, 0.16);
      // Three shades in turn tell blocks apart where there is no room for an edge.
      const shades = [0, 0.07, 0.14].map((share) => pack(mix(fill, dark, share)));
      return { shades, edge: pack(mix(fill, dark, 0.3)), dim: pack(dim), dimEdge: pack(mix(dim, fill, 0.12)), text: bright ? "#10131a" : "#ffffff" };
    }));
  }
}

// below counts the sorted numbers that are at most n.
function below(numbers, n) {
  let low = 0, high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] <= n) low = middle + 1; else high = middle;
  }
  return low;
}

// describe fills a box with what is known of a block. Texts of the recording stay texts.
function describe(box, page, map, i, whole) {
  const { data, view } = page, c = data.columns;
  box.replaceChildren();
  const title = document.createElement("b");
  title.textContent = bytesText(c.size[i]);
  const list = document.createElement("dl");
  const row = (name, text) => {
    const dt = document.createElement("dt"), dd = document.createElement("dd");
    dt.textContent = name;
    dd.textContent = text;
    list.append(dt, dd);
  };
  const end = map.end[i], never = c.life[i] === 0;
  const step = data.steps.findLast((s) => s.begin <= c.from[i]) ?? data.steps[0];
  row("requested", `${data.phases[c.phase[i]]}, ${step.name}${data.kind === "plan" ? "" : ", stream " + c.stream[i]}`);
  const was = view.byTime;
  if (data.kind !== "plan" && c.from[i] >= data.begin) {
    view.byTime = true;
    row("lived", `${timeText(view.place(c.from[i]))} to ${never ? "the end" : timeText(view.place(end))}${never ? "" : ", " + timeText(view.place(end) - view.place(c.from[i]))}`);
    view.byTime = was;
  }
  row("events", `${countText(c.from[i])} to ${never ? "the end" : countText(end)}`);
  if (whole) row("bytes", countText(c.size[i]));
  row("address", map.low[i] < 0 ? "none" : `${data.allocators[map.allocator].name}: ${bytesText(map.low[i] * GRAIN)} up`);
  if (data.kind !== "plan") row("stalloc", data.reasons[c.served[i]]);
  box.append(title, list);
  const stack = data.stacks && c.stack.length ? data.stacks[c.stack[i] - 1] : null;
  if (stack) {
    const pre = document.createElement("pre");
    pre.textContent = whole ? stack : stack.split("\n").slice(0, 6).join("\n");
    box.append(pre);
  }
}

// tooltip says what lies under the pointer on a map, and keeps what is clicked.
function tooltip(page, map) {
  const tip = document.getElementById("tip"), { curve } = page;
  map.onhover = (p, e) => {
    curve.point(p.inside ? p.x : null);
    for (const other of page.maps) if (other !== map) other.also(p.block);
    if (p.block < 0) { tip.hidden = true; return; }
    describe(tip, page, map, p.block, false);
    tip.hidden = false;
    const w = tip.offsetWidth, h = tip.offsetHeight;
    tip.style.left = Math.max(e.clientX + 18 + w > innerWidth ? e.clientX - w - 14 : e.clientX + 18, 4) + "px";
    tip.style.top = Math.max(Math.min(e.clientY + 14, innerHeight - h - 8), 4) + "px";
  };
  const details = document.getElementById("details");
  map.onpin = (block) => {
    details.hidden = block < 0;
    if (block >= 0) describe(details, page, map, block, true);
  };
  map.onescape = () => page.letGo();
  map.onup = () => { for (const other of page.maps) if (other !== map) other.follow(map); };
}

// second shows another allocator's map below the first, with the same time and scale.
function second(page) {
  if (page.data.kind !== "recording") return;
  const box = document.getElementById("mapbox2"), { data } = page;
  const use = (value) => {
    box.hidden = value === "none";
    if (box.hidden) return;
    if (page.maps.length < 2) {
      page.maps.push(new BlockMap(box, data, page.view, page.classes));
      tooltip(page, page.maps[1]);
      page.maps[1].onback = page.map.onback;
      page.maps[1].marked = page.map.marked;
    }
    page.maps[1].fold(...page.map.folded);
    page.maps[1].use(Number(value));
    page.maps[1].follow(page.map);
  };
  choice("maps2", [["none", "none"], ...data.allocators.flatMap((a, i) => (data.maps[i] ? [[i, a.name]] : []))], "none", use);
}

function legend(page) {
  const box = document.getElementById("legend"), { classes } = page;
  const used = new Set(classes.of);
  box.replaceChildren(...classes.names.flatMap((name, i) => {
    if (!used.has(i)) return [];
    const item = document.createElement("span"), key = document.createElement("i");
    key.style.background = `var(--${classes.variables[i]})`;
    item.append(key, name);
    return [item];
  }), Object.assign(document.createElement("span"), { innerHTML: '<i style="background:var(--held)"></i>held, not in use' }));
}

function steps(page) {
  const select = document.getElementById("steps"), { data, view, map } = page;
  const all = [["whole recording", 0, data.events]];
  data.steps.forEach((s, i) => all.push([s.name + (i === data.peak.step ? " (the peak)" : ""), s.begin, s.end]));
  all.forEach(([text], i) => select.append(new Option(text, i)));
  const show = () => {
    const [, begin, end] = all[select.value];
    for (const map of page.maps) map.fold(Math.max(begin, data.begin), Math.min(end, data.end));
    view.showEvents(begin, end);
  };
  select.value = data.steps.length > 1 && data.kind !== "live" ? data.peak.step + 1 : 0;
  select.onchange = show;
  map.onback = page.curve.onback = show;
  show();
}

async function start() {
  const data = await unpack(document.getElementById("packed").textContent);
  const view = new View(data), classes = new Classes(data);
  const map = new BlockMap(document.getElementById("mapbox"), data, view, classes);
  const curve = new Curve(document.getElementById("curve"), data, view);
  const page = { data, view, classes, map, curve, maps: [map] };
  if (data.kind !== "live") choice("maps", data.allocators.flatMap((a, i) => (data.maps[i] ? [[i, a.name]] : [])), map.allocator, (i) => map.use(Number(i)));
  if (data.kind !== "live") choice("colours", classes.ways.map((w) => [w.name, w.name]), classes.name, (name) => { classes.use(name); legend(page); for (const m of page.maps) m.due(); });
  choice("axis", data.kind === "plan" ? [["events", "requests"]] : data.kind === "live" ? [["time", "time"]] : [["time", "time"], ["events", "requests"]], view.byTime ? "time" : "events", (axis) => {
    view.setAxis(axis === "time");
    for (const m of page.maps) m.placeAll();
    curve.build();
  });
  if (data.kind !== "live") legend(page);
  marking(page);
  tooltip(page, map);
  tables(page);
  flame(page);
  theme(() => {
    classes.cache = null;
    curve.build();
    for (const m of page.maps) m.due();
  });
  steps(page);
  second(page);
  window.report = page; // for whoever looks closer, tests among them
  requestAnimationFrame(() => requestAnimationFrame(() => { document.body.dataset.drawn = performance.now().toFixed(0); }));
}

start().catch((error) => {
  const box = document.getElementById("trouble");
  box.hidden = false;
  box.textContent = `The drawing failed (${error}); the tables above and below are whole. A browser of 2023 or later is needed.`;
  throw error;
});

// Tables that are wider than the screen say so (page.css): columns that are cut off look like none.
const scrolls = document.querySelectorAll(".scroll");
const tellWidth = () => scrolls.forEach((box) => box.classList.toggle("wide", box.scrollWidth > box.clientWidth + 1));
addEventListener("resize", tellWidth);
tellWidth();
