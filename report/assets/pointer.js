// What a pointer and the keys do on the map.
"use strict";

// pointerOn moves, zooms and asks with a pointer.
function pointerOn(map) {
  const over = map.over, { view } = map;
  let drag = null;
  over.addEventListener("wheel", (e) => {
    e.preventDefault();
    const factor = Math.exp(Math.sign(e.deltaY || e.deltaX) * 0.25), p = map.at(e);
    if (e.shiftKey) map.showUp(p.y - (p.y - map.y0) * factor, p.y + (map.y1 - p.y) * factor);
    else view.zoom(factor, p.x);
  }, { passive: false });
  over.addEventListener("pointerdown", (e) => {
    over.setPointerCapture(e.pointerId);
    drag = { ...map.at(e), from: view.from, to: view.to, y0: map.y0, y1: map.y1, box: e.shiftKey, moved: false };
  });
  over.addEventListener("pointermove", (e) => {
    const p = map.at(e);
    if (!drag) return map.hover(p, e);
    drag.moved ||= Math.hypot(p.px - drag.px, p.py - drag.py) > 4;
    if (!drag.moved) return;
    map.hover({ block: -1, inside: false }, e);
    if (drag.box) {
      map.rubber = { x: map.area.left + Math.min(p.px, drag.px), y: map.area.top + Math.min(p.py, drag.py), w: Math.abs(p.px - drag.px), h: Math.abs(p.py - drag.py) };
      return map.outline();
    }
    const [sx, sy] = map.scale(), dx = (p.px - drag.px) / sx, dy = (p.py - drag.py) / sy;
    view.set(drag.from - dx, drag.to - dx);
    map.showUp(drag.y0 + dy, drag.y1 + dy);
  });
  over.addEventListener("pointerup", (e) => {
    const p = map.at(e), d = drag;
    drag = map.rubber = null;
    if (!d) return;
    if (!d.moved) return map.pin(p.block);
    if (!d.box) return;
    view.set(Math.min(d.x, p.x), Math.max(d.x, p.x));
    map.showUp(Math.min(d.y, p.y), Math.max(d.y, p.y));
  });
  over.addEventListener("pointerleave", (e) => map.hover({ block: -1, inside: false }, e));
  over.addEventListener("dblclick", () => map.onback?.());
}

// keysOn moves and zooms without a pointer: arrows, plus, minus, 0 and Escape.
function keysOn(map) {
  const { view } = map;
  map.over.tabIndex = 0;
  map.over.addEventListener("keydown", (e) => {
    const across = (view.to - view.from) / 8, up = (map.y1 - map.y0) / 8;
    const middle = (view.to + view.from) / 2;
    const shift = (x, y) => { view.set(view.from + x, view.to + x); if (y) map.showUp(map.y0 + y, map.y1 + y); };
    const act = {
      ArrowLeft: () => shift(-across, 0), ArrowRight: () => shift(across, 0), ArrowUp: () => shift(0, up), ArrowDown: () => shift(0, -up),
      "+": () => view.zoom(0.8, middle), "=": () => view.zoom(0.8, middle), "-": () => view.zoom(1.25, middle), "0": () => map.onback?.(), Escape: () => map.onescape?.(),
    }[e.key];
    if (!act || e.ctrlKey || e.metaKey) return;
    e.preventDefault();
    act();
  });
}
