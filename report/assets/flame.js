// The flame graph of the peak: a frame a bar, as wide as the bytes that it and what it calls hold.
"use strict";

// Narrower frames, of what is shown, are left out.
const LEAST = 1 / 400;

// flameTree adds the stacks of the peak up, the outermost frame first.
function flameTree(data) {
  const node = (name) => ({ name, bytes: 0, blocks: 0, stacks: new Set(), inner: new Map() });
  const root = node("live at the peak");
  for (const { stack, bytes, count } of data.peak.stacks) {
    const frames = stack < 0 ? ["no Python frame, as in backward"] : data.stacks[stack].split("\n").reverse();
    let at = root;
    for (const name of [null, ...frames]) {
      if (name !== null) {
        if (!at.inner.has(name)) at.inner.set(name, node(name));
        at = at.inner.get(name);
      }
      at.bytes += bytes; at.blocks += count; at.stacks.add(stack + 1);
    }
  }
  return root;
}

// colourOf is the same for the same file, in all graphs.
function colourOf(name) {
  let hash = 0;
  for (const letter of name.split(":")[0]) hash = (hash * 31 + letter.charCodeAt(0)) >>> 0;
  return `color-mix(in srgb, var(--c${hash % 7 + 1}) 28%, var(--card))`;
}

// shortFrame is a frame without its folders.
const shortFrame = (name) => name.replace(/^\S*\/(?=[^/ ]+ )/, "");

function flame(page) {
  const box = document.getElementById("flame");
  if (!box || !page.data.peak.stacks) return;
  const root = flameTree(page.data), c = page.data.columns;
  // draw shows what a frame holds, below the frames that lead to it.
  const draw = (chain, focus) => {
    const rows = chain.map((n) => [{ n, from: 0, chain: chain.slice(0, chain.indexOf(n) + 1) }]);
    const top = chain[chain.length - 1], share = (n) => n.bytes / top.bytes;
    for (let row = rows[rows.length - 1]; row.length > 0; row = rows[rows.length - 1]) {
      const next = [];
      for (const { n, from, chain: way } of row) {
        let at = from;
        for (const inner of [...n.inner.values()].sort((a, b) => b.bytes - a.bytes)) {
          if (share(inner) >= LEAST) next.push({ n: inner, from: at, chain: [...way, inner] });
          at += share(inner);
        }
      }
      rows.push(next);
    }
    box.replaceChildren(...rows.filter((row) => row.length > 0).map((row) => {
      const line = Object.assign(document.createElement("div"), { className: "row" });
      for (const { n, from, chain: way } of row) line.append(bar(n, from, Math.min(share(n), 1), way));
      return line;
    }));
    box.hidden = false;
    if (focus) box.children[chain.length - 1].firstChild.focus();
  };
  const bar = (n, from, wide, way) => {
    const b = Object.assign(document.createElement("button"), { type: "button", textContent: shortFrame(n.name) });
    b.title = `${n.name}\n${bytesText(n.bytes)}, ${(100 * n.bytes / root.bytes).toFixed(1)} % of the peak, ${countText(n.blocks)} blocks`;
    b.setAttribute("aria-label", b.title.replace("\n", ": "));
    b.style.cssText = `left:${100 * from}%;width:${100 * wide}%;background:${colourOf(shortFrame(n.name))}`;
    const marks = () => Uint8Array.from({ length: page.map.count }, (_, i) =>
      (c.from[i] <= page.data.peak.event && page.map.end[i] > page.data.peak.event && n.stacks.has(c.stack[i]) ? 1 : 0));
    b.onpointerenter = b.onfocus = () => page.mark(marks());
    b.onpointerleave = b.onblur = () => page.mark(null);
    b.onclick = () => draw(way, true);
    return b;
  };
  draw([root], false);
}
