// What is shown: a range across, by time or by events, that the curve and the map share.
"use strict";

class View {
  constructor(data) {
    this.data = data;
    this.micros = data.columns.micros;
    this.bucket = data.columns["curve.micros"];
    this.byTime = data.kind !== "plan";
    this.listeners = [];
    this.set(...this.whole());
  }

  listen(f) { this.listeners.push(f); }

  // place returns where an event lies across. Times are known event by event where blocks are
  // drawn, and bucket by bucket elsewhere.
  place(event) {
    if (!this.byTime) return event;
    const d = this.data, i = event - d.begin;
    if (i >= 0 && i < this.micros.length) return this.micros[i];
    if (i === this.micros.length && i > 0) return this.micros[i - 1];
    return this.bucket[Math.min(Math.floor(event / d.every), this.bucket.length - 1)];
  }

  // eventAt is the way back: the first event that lies at x or after it.
  eventAt(x) {
    let low = 0, high = this.data.events;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.place(middle) < x) low = middle + 1; else high = middle;
    }
    return low;
  }

  whole() { return [this.place(0), this.place(this.data.events)]; }

  set(from, to) {
    const [first, last] = this.whole();
    const least = this.byTime ? 2 : 4;
    let width = Math.min(Math.max(to - from, least), Math.max(last - first, least));
    from = Math.min(Math.max(from, first), Math.max(last - width, first));
    this.from = from;
    this.to = from + width;
    for (const f of this.listeners) f();
  }

  setAxis(byTime) {
    const from = this.eventAt(this.from), to = this.eventAt(this.to);
    this.byTime = byTime;
    this.set(this.place(from), this.place(to));
  }

  showEvents(begin, end) { this.set(this.place(begin), this.place(end)); }

  // zoom makes the range so many times as wide, around a place that stays.
  zoom(factor, around) {
    this.set(around - (around - this.from) * factor, around + (this.to - around) * factor);
  }

  // ticks are round places across, for both axes; most of them have room for their labels.
  ticks(most = 9) {
    const step = nice((this.to - this.from) / most, 10), out = [];
    for (let v = Math.ceil(this.from / step) * step; v <= this.to; v += step) out.push(v);
    return out;
  }

  title() { return this.byTime ? "time since the recording began" : "requests and frees so far"; }

  label(x) { return this.byTime ? timeText(Math.max(x, 0)) : countText(x); }
}
