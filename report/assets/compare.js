// The page of two runs: its tables, and light or dark.
"use strict";

document.querySelectorAll("table.sortable").forEach(sortable);
grouped([...document.querySelectorAll("[data-by]")]);
theme(() => {});
document.body.dataset.drawn = performance.now().toFixed(0);
