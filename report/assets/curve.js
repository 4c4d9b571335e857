// The load and what each allocator reserves, drawn by uPlot.
"use strict";

class Curve {
  constructor(box, data, view) {
    this.box = box;
    this.data = data;
    this.view = view;
    this.names = ["load", ...data.allocators.map((a) => a.name)];
    view.listen(() => this.draw());
    new ResizeObserver(() => this.resize()).observe(box);
    this.build();
  }

  build() {
    if (this.plot) this.plot.destroy();
    const ink = style("soft"), grid = { stroke: style("line"), width: 1 };
    const font = `12px ${getComputedStyle(document.body).fontFamily}`;
    const gib = (v) => (v == null ? "–" : bytesText(v * GRAIN));
    const series = [{ label: this.view.byTime ? "at" : "event", value: (u, v) => (v == null ? "–" : this.view.label(v)) }];
    this.names.forEach((name, i) => {
      const colour = style(i === 0 ? "ink-load" : name);
      series.push({
        label: i === 0 ? (this.data.kind === "plan" ? "wanted" : "load") : name + (this.data.kind === "plan" ? " holds" : " reserves"), stroke: colour, width: i === 0 ? 1.4 : 2, value: (u, v) => gib(v),
        fill: i === 0 ? colour + "14" : undefined, paths: uPlot.paths.stepped({ align: 1 }), points: { show: false },
      });
    });
    this.plot = new uPlot({
      width: this.box.clientWidth, height: 220,
      padding: [18, RIGHT, 0, 0],
      scales: { x: { time: false, range: () => [this.view.from, this.view.to] }, y: { range: (u, low, high) => [0, high * 1.04] } },
      legend: { mount: (u, legend) => document.getElementById("values").replaceChildren(legend) },
      cursor: { drag: { x: true, y: false, setScale: false }, points: { size: 6 } },
      series,
      axes: [
        { grid, ticks: { show: false }, size: 8, splits: () => this.view.ticks(ticksOn(this.box.clientWidth - LEFT - RIGHT)), values: () => [] }, // the map's axis serves both
        { stroke: ink, grid, ticks: { show: false }, size: LEFT, font, values: (u, ticks) => ticks.map((v) => shortText(v * GRAIN)), incrs: this.steps() },
      ],
      hooks: { setSelect: [(u) => this.selected(u)], draw: [(u) => this.marks(u)] },
    }, this.columns(), this.box);
    const canvas = this.box.querySelector("canvas");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `curves over time: ${this.names.join(", ")}`);
    this.plot.over.addEventListener("dblclick", () => this.onback?.());
  }

  // steps are the distances of the grid: powers of two, in grains.
  steps() {
    return Array.from({ length: 34 }, (_, i) => 2 ** i);
  }

  // columns takes the largest of every pixel's buckets.
  columns() {
    const d = this.data, v = this.view, every = d.every;
    const first = Math.max(Math.floor(v.eventAt(v.from) / every) - 1, 0);
    const last = Math.min(Math.ceil(v.eventAt(v.to) / every) + 1, d.columns["curve.load"].length);
    const each = Math.max(Math.ceil((last - first) / 2400), 1);
    const out = [[], ...this.names.map(() => [])];
    const from = this.names.map((name) => d.columns["curve." + name]);
    for (let i = first; i < last; i += each) {
      out[0].push(v.place(i * every));
      from.forEach((values, k) => {
        let most = 0;
        for (let j = i; j < Math.min(i + each, last); j++) if (values[j] > most) most = values[j];
        out[k + 1].push(most);
      });
    }
    return out;
  }

  draw() { this.plot.setData(this.columns()); }

  resize() {
    if (this.box.clientWidth !== this.plot.width) this.plot.setSize({ width: this.box.clientWidth, height: 220 });
  }

  selected(u) {
    if (u.select.width < 4) return;
    const from = u.posToVal(u.select.left, "x"), to = u.posToVal(u.select.left + u.select.width, "x");
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.view.set(from, to);
  }

  // marks draws where the steps begin, and the peak.
  marks(u) {
    const c = u.ctx, dpr = devicePixelRatio, d = this.data;
    const left = u.bbox.left, right = left + u.bbox.width, top = u.bbox.top;
    c.save();
    c.font = `${11 * dpr}px ${getComputedStyle(document.body).fontFamily}`;
    c.strokeStyle = c.fillStyle = style("soft");
    c.textAlign = "left";
    c.setLineDash([3 * dpr, 3 * dpr]);
    let free = left, drawn = -Infinity;
    for (const step of d.steps) {
      const x = u.valToPos(this.view.place(step.begin), "x", true);
      if (x < left - 1 || x > right || x < drawn + 6 * dpr) continue; // no hatching of short steps
      drawn = x;
      c.globalAlpha = 0.55;
      c.beginPath(); c.moveTo(x, top); c.lineTo(x, top + u.bbox.height); c.stroke();
      c.globalAlpha = 1;
      const width = c.measureText(step.name).width;
      if (x + 3 * dpr >= free && x + width < right) {
        c.fillText(step.name, x + 4 * dpr, top - 5 * dpr);
        free = x + width + 12 * dpr;
      }
    }
    const x = u.valToPos(this.view.place(d.peak.event), "x", true), y = u.valToPos(d.peak.load / GRAIN, "y", true);
    if (x >= left && x <= right) {
      c.setLineDash([]);
      c.fillStyle = style("ink");
      c.beginPath(); c.arc(x, y, 3.5 * dpr, 0, 7); c.fill();
    }
    c.fillStyle = style("soft");
    c.font = `${12 * dpr}px ${getComputedStyle(document.body).fontFamily}`;
    upright(c, "memory", 9 * dpr, top + u.bbox.height / 2);
    c.restore();
  }

  // point shows a place that the map's pointer is at.
  point(x) {
    if (x == null) this.plot.setCursor({ left: -10, top: -10 });
    else this.plot.setCursor({ left: this.plot.valToPos(x, "x"), top: -10 });
  }
}
