// Wide tables scroll in a box of their own that keys reach, and the theme's parts are landmarks.
for (const table of document.querySelectorAll("[role=main] table")) {
  const box = document.createElement("div");
  box.className = "scroll";
  box.tabIndex = 0;
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", "table");
  table.before(box);
  box.append(table);
}
for (const block of document.querySelectorAll("[role=main] pre")) block.tabIndex = 0;
document.querySelector(".navbar")?.setAttribute("role", "navigation");
document.querySelector(".bs-sidebar")?.setAttribute("role", "complementary");
document.querySelector("footer")?.setAttribute("role", "contentinfo");
