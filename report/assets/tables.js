// Tables: sorted by a column, searched, grouped one way or another; rows that show their blocks.
// And what pages share: a choice of one, light or dark.
"use strict";

const FEW = 16; // rows of what made the peak, before one asks for all

// sortable makes the heads of a table sort its rows: by numbers where cells tell them, else by text.
function sortable(table) {
  const body = table.tBodies[0];
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: head.textContent });
    head.replaceChildren(button);
    button.onclick = () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const of = (row) => row.cells[column].dataset.v ?? row.cells[column].textContent;
      const rows = [...body.rows].sort((a, b) => {
        const x = of(a), y = of(b), by = x - y;
        return (Number.isNaN(by) ? x.localeCompare(y) : by) * (down ? -1 : 1);
      });
      body.append(...rows);
      table.dispatchEvent(new Event("sorted"));
    };
  });
}

// standOut has a table's row show its blocks while the pointer or the focus is on it, and keep
// them marked once it is clicked.
function standOut(page, selector, picks) {
  for (const row of document.querySelectorAll(selector)) {
    const marks = () => { const pick = picks(row); return Uint8Array.from({ length: page.map.count }, (_, i) => (pick(i) ? 1 : 0)); };
    const keep = () => {
      page.keep(row, marks());
      document.getElementById("drawn").scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
    };
    row.addEventListener("pointerenter", () => page.mark(marks()));
    row.addEventListener("pointerleave", () => page.mark(null));
    row.addEventListener("focus", () => page.mark(marks()));
    row.addEventListener("blur", () => page.mark(null));
    row.addEventListener("click", keep);
    row.addEventListener("keydown", (e) => { if (e.key === "Enter") keep(); });
  }
}

// marking lets rows and frames mark blocks in all maps, for a while or until it is let go.
function marking(page) {
  let kept = null, holder = null;
  const show = (marks) => { for (const map of page.maps) { map.marked = marks; map.due(); } };
  page.mark = (marks) => show(marks ?? kept);
  page.keep = (by, marks) => {
    holder?.removeAttribute("data-kept");
    [kept, holder] = by === holder ? [null, null] : [marks, by];
    holder?.setAttribute("data-kept", "");
    show(kept);
  };
  page.letGo = () => { page.keep(holder, null); for (const map of page.maps) map.pin(-1); };
}

// within reports which blocks of a group they are, of a way to group.
function within(page, way) {
  const { data, map } = page, c = data.columns, at = data.peak.event, step = data.steps[data.peak.step];
  const text = (of, i) => (c.stack[i] > 0 ? of[c.stack[i] - 1] : "no Python frame, as in backward");
  const same = {
    frame: (g, i) => text(data.frames, i) === g.what, module: (g, i) => text(data.modules, i) === g.what,
    shape: (g, i) => c.size[i] === g.size && c.phase[i] === g.phase, phase: (g, i) => c.phase[i] === g.phase,
  }[way];
  return (g) => (i) => c.from[i] <= at && map.end[i] > at && (c.from[i] < step.begin || map.end[i] >= step.end) === g.kept && same(g, i);
}

// grouped shows one of the tables, of one way to group each: a few rows, those with a word, or all.
function grouped(boxes) {
  const search = document.getElementById("search"), more = document.getElementById("more");
  let all = false;
  const show = () => {
    const word = search.value.trim().toLowerCase();
    for (const box of boxes) {
      let shown = 0, hidden = 0;
      for (const row of box.querySelectorAll("tr[data-group]")) {
        const fits = (row.textContent + row.querySelector(".frame").title).toLowerCase().includes(word);
        const room = all || word !== "" || shown < FEW;
        row.hidden = !fits || !room;
        if (fits) room ? shown++ : hidden++;
      }
      if (box.hidden) continue;
      more.hidden = hidden === 0;
      more.textContent = `show ${countText(hidden)} more`;
    }
  };
  search.oninput = show;
  more.onclick = () => { all = true; show(); };
  const use = (way) => { for (const box of boxes) box.hidden = box.dataset.by !== way; show(); };
  choice("by", boxes.map((box) => [box.dataset.by, box.dataset.by]), boxes[0].dataset.by, use);
  boxes.forEach((box) => box.querySelector("table").addEventListener("sorted", show));
  document.getElementById("peakcontrols").hidden = false;
  use(boxes[0].dataset.by);
}

function tables(page) {
  document.querySelectorAll("table.sortable").forEach(sortable);
  standOut(page, "tr[data-reason]", (row) => (i) => page.data.columns.served[i] === Number(row.dataset.reason));
  const boxes = [...document.querySelectorAll("[data-by]")];
  if (boxes.length === 0) return;
  for (const box of boxes) {
    const { groups } = page.data.peak.by.find((by) => by.by === box.dataset.by), pick = within(page, box.dataset.by);
    standOut(page, `[data-by=${box.dataset.by}] tr[data-group]`, (row) => pick(groups[row.dataset.group]));
  }
  grouped(boxes);
}

function choice(id, options, chosen, use) {
  const box = document.getElementById(id);
  const buttons = options.map(([value, text]) => {
    const b = document.createElement("button");
    b.type = "button";
    b.textContent = text;
    b.dataset.value = value;
    b.onclick = () => { press(value); use(value); };
    box.append(b);
    return b;
  });
  const press = (value) => buttons.forEach((b) => b.setAttribute("aria-pressed", b.dataset.value === String(value)));
  press(chosen);
}

// theme changes between light and dark; what is painted has to be painted anew.
function theme(repaint) {
  document.getElementById("theme").onclick = () => {
    const dark = getComputedStyle(document.documentElement).colorScheme === "dark";
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    repaint();
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
}
