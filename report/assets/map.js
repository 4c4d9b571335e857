// One rectangle a block: time across, address up. Rectangles are written pixel by pixel, so
// that some hundred thousand take milliseconds, and so is the number of the block that each
// pixel shows, so that what lies under the pointer is one look.
"use strict";

const BOTTOM = 44, TOP = 4;

class BlockMap {
  constructor(box, data, view, classes) {
    this.data = data;
    this.view = view;
    this.classes = classes;
    [this.canvas, this.over] = box.querySelectorAll("canvas");
    this.box = box;
    this.area = { left: 0, top: 0, width: 0, height: 0 }; // until it is drawn
    this.dpr = 1;
    this.marked = null; // a Uint8Array: 1 for what stands out, the rest is dimmed
    this.hovered = this.pinned = -1;
    const n = (this.count = data.drawn);
    this.begin = data.columns.from;
    this.end = new Float64Array(n);
    this.high = new Float64Array(n);
    for (let i = 0; i < n; i++) {
      const life = data.columns.life[i];
      this.end[i] = life === 0 ? data.events : this.begin[i] + life;
      this.high[i] = Math.max(Math.ceil(data.columns.size[i] / GRAIN), 1);
    }
    this.left = new Float64Array(n);
    this.right = new Float64Array(n);
    this.spaces = data.allocators.map((a, i) => (data.maps[i] ? new Space(this, data.columns, a.name) : Space.none));
    this.allocator = Math.max(data.maps.indexOf(true), 0); // native's, or the only one
    this.y0 = 0;
    this.y1 = this.top = 1;
    this.folded = [data.begin, data.end];
    this.use(this.allocator);
    this.placeAll();
    view.listen(() => { this.moved(); this.due(); });
    new ResizeObserver(() => this.due()).observe(box);
    pointerOn(this);
    keysOn(this);
  }

  // use chooses whose addresses are shown.
  use(allocator) {
    this.allocator = allocator;
    this.spaces[allocator].move();
    this.low = this.spaces[allocator].low;
    this.held = this.spaces[allocator].held;
    this.due();
  }

  // fold leaves out the addresses that have no memory all the while between two events, and
  // gives all maps one scale.
  fold(begin, end) {
    this.folded = [begin, end];
    this.top = 1;
    for (const s of this.spaces) this.top = Math.max(this.top, s.fold(begin, end));
    this.use(this.allocator);
    this.showUp(0, this.top * 1.01);
  }

  // moved folds anew where the range across has left what was folded for.
  moved() {
    const [begin, end] = this.folded, { view, data } = this;
    if (begin <= data.begin && end >= data.end) return;
    if (view.from < view.place(begin) || view.to > view.place(end)) this.fold(data.begin, data.end);
  }

  // placeAll says where every block begins and ends across; the axis decides.
  placeAll() {
    for (let i = 0; i < this.count; i++) {
      this.left[i] = this.view.place(this.begin[i]);
      this.right[i] = this.view.place(this.end[i]);
    }
    this.due();
  }

  due() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.draw(); });
  }

  draw() {
    const dpr = devicePixelRatio || 1, box = this.box.getBoundingClientRect();
    const width = Math.round(box.width * dpr), height = Math.round(box.height * dpr);
    if (width < 100 || height < 20) return;
    if (this.canvas.width !== width || this.canvas.height !== height) {
      for (const c of [this.canvas, this.over]) { c.width = width; c.height = height; }
    }
    this.dpr = dpr;
    this.area = {
      left: Math.round(LEFT * dpr), top: Math.round(TOP * dpr),
      width: width - Math.round((LEFT + RIGHT) * dpr), height: height - Math.round((TOP + BOTTOM) * dpr),
    };
    const began = performance.now();
    if (this.area.height > 8) this.paint();
    else this.canvas.getContext("2d").clearRect(0, 0, width, height); // a live run has no blocks, only the axis
    this.axes();
    this.outline();
    this.took = performance.now() - began;
  }

  // scale returns pixels per unit across and up.
  scale() {
    return [this.area.width / (this.view.to - this.view.from), this.area.height / (this.y1 - this.y0)];
  }

  paint() {
    const { width, height } = this.area, ctx = this.canvas.getContext("2d");
    ctx.clearRect(0, 0, this.canvas.width, this.canvas.height);
    if (!this.image || this.image.width !== width || this.image.height !== height) {
      this.image = new ImageData(width, height);
      this.pixels = new Uint32Array(this.image.data.buffer);
      this.owner = new Int32Array(width * height);
    }
    const { pixels, owner, view } = this;
    pixels.fill(packed(style("none")));
    owner.fill(-1);
    const [sx, sy] = this.scale();
    this.background(sx, sy);
    const colours = this.classes.colours(), { of } = this.classes;
    this.labels = [];
    for (let i = 0; i < this.count; i++) {
      if (this.left[i] > view.to) break; // in the order of their requests
      if (this.right[i] < view.from || this.low[i] < 0) continue;
      const bottom = this.low[i], top = bottom + this.high[i];
      if (top < this.y0 || bottom > this.y1) continue;
      const x0 = Math.max(Math.round((this.left[i] - view.from) * sx), 0);
      const x1 = Math.min(Math.max(Math.round((this.right[i] - view.from) * sx), x0 + 1), width);
      const y1 = Math.min(height - Math.round((bottom - this.y0) * sy), height);
      const y0 = Math.max(Math.min(height - Math.round((top - this.y0) * sy), y1 - 1), 0);
      if (x0 >= width || y1 <= 0) continue;
      const c = colours[of[i]], out = this.marked && !this.marked[i];
      const fill = out ? c.dim : c.shades[i % 3];
      const w = x1 - x0, h = y1 - y0;
      for (let y = y0; y < y1; y++) {
        pixels.fill(fill, y * width + x0, y * width + x1);
        owner.fill(i, y * width + x0, y * width + x1);
      }
      if (w >= 4 && h >= 4) { // a line at the left and at the top tells neighbours apart
        const edge = out ? c.dimEdge : c.edge;
        pixels.fill(edge, y0 * width + x0, y0 * width + x1);
        for (let y = y0; y < y1; y++) pixels[y * width + x0] = edge;
        if (w > 66 * this.dpr && h > 15 * this.dpr && this.labels.length < 600 && !out) this.labels.push([i, x0, y0, w, h]);
      }
    }
    ctx.putImageData(this.image, this.area.left, this.area.top);
    this.write(ctx);
  }

  // background paints what has memory behind it; what stays in sight is held and not in use.
  background(sx, sy) {
    const { width, height } = this.area, { pixels, view, held } = this, colour = packed(style("held"));
    for (let i = 0; i < held.low.length; i++) {
      const from = view.place(held.begin[i]), to = view.place(held.begin[i] + held.life[i]);
      if (from > view.to || to < view.from || held.low[i] < 0) continue;
      const x0 = Math.max(Math.round((from - view.from) * sx), 0), x1 = Math.min(Math.round((to - view.from) * sx), width);
      const y1 = Math.min(height - Math.round((held.low[i] - this.y0) * sy), height);
      const y0 = Math.max(height - Math.round((held.low[i] + held.size[i] - this.y0) * sy), 0);
      if (x1 > x0) for (let y = y0; y < y1; y++) pixels.fill(colour, y * width + x0, y * width + x1);
    }
  }

  // write puts the size on blocks that have the room.
  write(ctx) {
    const dpr = this.dpr;
    ctx.font = `${11 * dpr}px ${getComputedStyle(document.body).fontFamily}`;
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    const colours = this.classes.colours();
    for (const [i, x, y, w, h] of this.labels) {
      ctx.fillStyle = colours[this.classes.of[i]].text;
      ctx.fillText(bytesText(this.data.columns.size[i]), this.area.left + x + w / 2, this.area.top + y + h / 2);
    }
  }

  axes() {
    const ctx = this.canvas.getContext("2d"), a = this.area, dpr = this.dpr;
    ctx.font = `${12 * dpr}px ${getComputedStyle(document.body).fontFamily}`;
    ctx.fillStyle = style("soft");
    ctx.textAlign = "right";
    ctx.textBaseline = "middle";
    const [, sy] = this.scale();
    const step = this.count === 0 ? Infinity : nice((this.y1 - this.y0) * GRAIN / 7, 2) / GRAIN;
    for (let v = Math.ceil(this.y0 / step) * step; v <= this.y1; v += step) {
      const y = a.top + a.height - (v - this.y0) * sy;
      ctx.fillText(shortText(v * GRAIN), a.left - 8 * dpr, Math.max(y, a.top + 6 * dpr));
    }
    ctx.textAlign = "center";
    ctx.textBaseline = "top";
    const [sx] = this.scale();
    for (const v of this.view.ticks(ticksOn(a.width / dpr))) {
      const x = a.left + (v - this.view.from) * sx;
      if (x > a.left + 24 * dpr && x < a.left + a.width - 24 * dpr) ctx.fillText(this.view.label(v), x, a.top + a.height + 7 * dpr);
    }
    ctx.fillText(this.view.title(), a.left + a.width / 2, a.top + a.height + 26 * dpr);
    if (this.count > 0) upright(ctx, "address", 9 * dpr, a.top + a.height / 2);
    ctx.textAlign = "left";
  }

  // outline draws what changes with the pointer: the steps' begins, the peak, the block under it.
  outline() {
    const ctx = this.over.getContext("2d"), a = this.area, dpr = this.dpr;
    ctx.clearRect(0, 0, this.over.width, this.over.height);
    const [sx, sy] = this.scale();
    ctx.save();
    ctx.beginPath(); ctx.rect(a.left, a.top, a.width, a.height); ctx.clip();
    const line = (event, colour, dash) => {
      const x = Math.round(a.left + (this.view.place(event) - this.view.from) * sx) + 0.5;
      if (x < a.left || x > a.left + a.width) return;
      ctx.strokeStyle = colour; ctx.lineWidth = dpr; ctx.setLineDash(dash);
      ctx.beginPath(); ctx.moveTo(x, a.top); ctx.lineTo(x, a.top + a.height); ctx.stroke();
    };
    ctx.globalAlpha = 0.6;
    let drawn = -Infinity;
    for (const step of this.data.steps) {
      const x = (this.view.place(step.begin) - this.view.from) * sx;
      if (x < drawn + 6 * dpr) continue;
      drawn = x;
      line(step.begin, style("soft"), [3 * dpr, 3 * dpr]);
    }
    ctx.globalAlpha = 1;
    line(this.data.peak.event, style("ink"), [6 * dpr, 3 * dpr]);
    ctx.setLineDash([]);
    for (const i of [this.pinned, this.hovered]) {
      if (i < 0 || this.low[i] < 0) continue;
      const x = a.left + (this.left[i] - this.view.from) * sx, y = a.top + a.height - (this.low[i] + this.high[i] - this.y0) * sy;
      const w = Math.max((this.right[i] - this.left[i]) * sx, 2), h = Math.max(this.high[i] * sy, 2);
      ctx.lineWidth = 3 * dpr; ctx.strokeStyle = style("card"); ctx.strokeRect(x, y, w, h);
      ctx.lineWidth = 1.5 * dpr; ctx.strokeStyle = style("ink"); ctx.strokeRect(x, y, w, h);
    }
    if (this.rubber) {
      const r = this.rubber;
      ctx.fillStyle = style("accent"); ctx.globalAlpha = 0.2; ctx.fillRect(r.x, r.y, r.w, r.h);
      ctx.globalAlpha = 1; ctx.strokeStyle = style("accent"); ctx.lineWidth = dpr; ctx.strokeRect(r.x, r.y, r.w, r.h);
    }
    ctx.restore();
  }

  // at returns where a pointer is: across, up, and over which block (-1 for none).
  at(e) {
    const box = this.over.getBoundingClientRect(), a = this.area;
    const px = Math.round((e.clientX - box.left) * this.dpr - a.left), py = Math.round((e.clientY - box.top) * this.dpr - a.top);
    const [sx, sy] = this.scale(), inside = px >= 0 && py >= 0 && px < a.width && py < a.height;
    return { px, py, inside, x: this.view.from + px / sx, y: this.y0 + (a.height - py) / sy, block: inside ? this.owner[py * a.width + px] : -1 };
  }

  showUp(low, high) {
    const least = 16, size = Math.min(Math.max(high - low, least), this.top * 1.01);
    this.y0 = Math.min(Math.max(low, 0), this.top * 1.01 - size);
    this.y1 = this.y0 + size;
    this.due();
    this.onup?.();
  }

  // follow shows the addresses that another map shows.
  follow(map) {
    this.y0 = map.y0;
    this.y1 = map.y1;
    this.due();
  }

  // also outlines the block that the pointer is on in another map.
  also(block) {
    if (block === this.hovered) return;
    this.hovered = block;
    this.outline();
  }

  hover(p, e) {
    if (p.block !== this.hovered) {
      this.hovered = p.block;
      this.outline();
    }
    this.onhover?.(p, e);
  }

  pin(block) {
    this.pinned = block;
    this.outline();
    this.onpin?.(block);
  }
}

// upright writes the title of an axis that goes up.
function upright(ctx, text, x, y) {
  ctx.save();
  ctx.translate(x, y);
  ctx.rotate(-Math.PI / 2);
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  ctx.fillText(text, 0, 0);
  ctx.restore();
}

// ticksOn is how many labels an axis of so many pixels has room for.
const ticksOn = (pixels) => Math.min(Math.max(Math.floor(pixels / 75), 2), 9);

// nice returns a round number near n: 1, 2 or 5 times a power of ten, or a power of two.
function nice(n, base) {
  if (base === 2) return 2 ** Math.round(Math.log2(n));
  const power = 10 ** Math.floor(Math.log10(n)), rest = n / power;
  return power * (rest < 1.5 ? 1 : rest < 3.5 ? 2 : rest < 7.5 ? 5 : 10);
}

// rgb reads a colour of the style sheet, #rrggbb.
const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

// packed is a colour as ImageData holds it on the machines there are: little endian.
const pack = ([r, g, b]) => (0xff000000 | (b << 16) | (g << 8) | r) >>> 0;
const packed = (hex) => pack(rgb(hex));
const mix = (a, b, share) => a.map((v, i) => Math.round(v * (1 - share) + b[i] * share));
