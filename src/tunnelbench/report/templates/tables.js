"use strict";
// Sorting of tables, for pages of runs and for the site.

function element(name, text) {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}

// Below the first text of a cell may stand another, such as a spread.
function firstText(cell) {
  return cell.firstChild ? cell.firstChild.textContent.trim() : "";
}

// Returns a number if the cell begins with one, else its text; an empty cell is the last in either order.
function sortKey(cell) {
  const text = firstText(cell);
  const number = parseFloat(text.replace(/^\u2265\s*/, "").replace(/,/g, ""));
  return text === "" ? null : Number.isNaN(number) ? text : number;
}

function compare(one, other) {
  if (typeof one === "number" && typeof other === "number") return one - other;
  if (typeof one !== typeof other) return typeof one === "number" ? -1 : 1;
  return one.localeCompare(other);
}

// Sorts the rows of each group of a table; the heading of a group stays where it is.
function sortBy(table, column, heading) {
  const sign = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  table.querySelectorAll("th[aria-sort]").forEach((other) => other.removeAttribute("aria-sort"));
  heading.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
  for (const body of table.tBodies) {
    const own = Array.from(body.rows).filter((row) => !row.classList.contains("group"));
    const rows = own.map((row) => ({ row, key: sortKey(row.cells[column]) }));
    rows.sort((one, other) => {
      if (one.key === null || other.key === null) return (one.key === null) - (other.key === null);
      return sign * compare(one.key, other.key);
    });
    body.append(...rows.map(({ row }) => row));
  }
}

function makeSortable(table) {
  Array.from(table.tHead.rows[0].cells).forEach((heading, column) => {
    const button = element("button", heading.textContent);
    button.type = "button";
    button.addEventListener("click", () => sortBy(table, column, heading));
    heading.replaceChildren(button);
  });
}
