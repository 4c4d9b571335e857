"use strict";

// Space is where one allocator put the blocks, in grains above its lowest address.
class Space {
  constructor(map, columns, name) {
    this.map = map;
    this.whole = columns["place." + name];
    this.ranges = { low: columns["held.low." + name], size: columns["held.size." + name], begin: columns["held.begin." + name], life: columns["held.life." + name] };
    this.low = new Float64Array(this.whole.length);
    this.held = { ...this.ranges, low: new Float64Array(this.ranges.low.length) };
    this.left = [[], [], []]; // by fold: where it starts, ends, and what lies below
  }

  // fold finds what has memory or a block between two events, for move; it returns its height.
  fold(begin, end) {
    const r = this.ranges, { begin: from, end: to, high } = this.map, whole = this.whole;
    const lows = new Float64Array(whole.length + r.low.length), highs = new Float64Array(lows.length);
    let n = 0;
    for (let i = 0; i < whole.length; i++) {
      if (whole[i] >= 0 && from[i] < end && to[i] >= begin) { lows[n] = whole[i]; highs[n++] = whole[i] + high[i]; }
    }
    for (let i = 0; i < r.low.length; i++) {
      if (r.begin[i] < end && r.begin[i] + r.life[i] >= begin) { lows[n] = r.low[i]; highs[n++] = r.low[i] + r.size[i]; }
    }
    // Sorted apart, begins and ends tell where nothing lies: where as many have ended as begun.
    const sorted = lows.subarray(0, n).sort(), over = highs.subarray(0, n).sort();
    const starts = [], ends = [], below = [];
    let height = 0;
    for (let i = 0, first = 0; i < n; i++) {
      if (i + 1 < n && sorted[i + 1] <= over[i]) continue;
      starts.push(sorted[first]); ends.push(over[i]); below.push(height);
      height += over[i] - sorted[first];
      first = i + 1;
    }
    this.left = [starts, ends, below];
    this.moved = false;
    return height;
  }

  // move brings everything down to where fold says that it lies.
  move() {
    if (this.moved) return;
    this.moved = true;
    const [starts, ends, heights] = this.left;
    const place = (at) => {
      const n = below(starts, at) - 1;
      return n >= 0 && at < ends[n] ? heights[n] + at - starts[n] : -1;
    };
    this.whole.forEach((at, i) => { this.low[i] = at < 0 ? -1 : place(at); });
    this.ranges.low.forEach((at, i) => { this.held.low[i] = place(at); });
  }
}

// none is the space of an allocator whose addresses are not known, or are not memory.
Space.none = { low: [], held: { low: [] }, fold: () => 0, move: () => {} };
