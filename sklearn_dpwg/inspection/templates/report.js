"use strict";
// Says which tables scroll, and makes headings into buttons that sort; the page lacks nothing else.
for (const box of document.querySelectorAll(".scroll")) {
  const say = () => box.classList.toggle("more", box.scrollWidth > box.clientWidth);
  new ResizeObserver(say).observe(box);
}
for (const table of document.querySelectorAll("table[data-sortable]")) {
  const body = table.tBodies[0];
  const said = document.getElementById("sorted");
  for (const heading of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    const key = (row) => {
      const cell = row.cells[heading.cellIndex];
      const value = cell.dataset.value;
      if (value === undefined) return cell.textContent.trim();
      return value === "" ? -Infinity : Number(value);
    };
    button.addEventListener("click", () => {
      const up = heading.getAttribute("aria-sort") !== "ascending";
      const sign = up ? 1 : -1;
      const rows = [...body.rows].sort((first, second) => {
        const [a, b] = [key(first), key(second)];
        return sign * (typeof a === "number" ? (a > b) - (a < b) : a.localeCompare(b));
      });
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", up ? "ascending" : "descending");
      body.append(...rows);
      said.textContent = `Sorted by ${button.textContent}, ${up ? "ascending" : "descending"}.`;
    });
  }
}
