"use strict";
// Sorting and filtering of the tables, and the drawing of the charts. Without this the page has all its text.

function element(name, text) {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}

// A number where a cell begins with one, else its text; an empty cell is the last in either order.
function sortKey(cell) {
  const text = (cell.firstChild ? cell.firstChild.textContent : "").trim();
  const number = parseFloat(text.replace(/,/g, ""));
  return text === "" ? null : Number.isNaN(number) ? text : number;
}

function compare(one, other) {
  if (typeof one === "number" && typeof other === "number") return one - other;
  if (typeof one !== typeof other) return typeof one === "number" ? -1 : 1;
  return one.localeCompare(other);
}

function sortBy(table, column, heading) {
  const sign = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  table.querySelectorAll("th[aria-sort]").forEach((other) => other.removeAttribute("aria-sort"));
  heading.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
  const body = table.tBodies[0];
  const rows = Array.from(body.rows, (row) => ({ row, key: sortKey(row.cells[column]) }));
  rows.sort((one, other) => {
    if (one.key === null || other.key === null) return (one.key === null) - (other.key === null);
    return sign * compare(one.key, other.key);
  });
  body.append(...rows.map(({ row }) => row));
}

function makeSortable(table) {
  Array.from(table.tHead.rows[0].cells).forEach((heading, column) => {
    const button = element("button", heading.textContent);
    button.type = "button";
    button.addEventListener("click", () => sortBy(table, column, heading));
    heading.replaceChildren(button);
  });
}

function labelled(text, select, id) {
  const label = element("label", text);
  label.htmlFor = select.id = id;
  const both = element("span", "");
  both.append(label, " ", select);
  return both;
}

// What a row is filtered by: the first text of its first three cells.
function makeFilters(table) {
  const controls = element("div", "");
  controls.className = "controls";
  const shown = element("span", "");
  shown.setAttribute("role", "status");
  const selects = ["Tunnel", "Payload", "Direction"].map((name, column) => {
    const values = new Set(Array.from(table.tBodies[0].rows, (row) => row.cells[column].firstChild.textContent));
    const select = document.createElement("select");
    select.append(new Option("all", ""), ...Array.from(values, (value) => new Option(value, value)));
    controls.append(labelled(name, select, `${table.id}-${column}`));
    return select;
  });
  const filter = () => {
    let count = 0;
    for (const row of table.tBodies[0].rows) {
      row.hidden = selects.some((select, column) => {
        return select.value !== "" && row.cells[column].firstChild.textContent !== select.value;
      });
      count += row.hidden ? 0 : 1;
    }
    shown.textContent = `${count} of ${table.tBodies[0].rows.length} rows`;
  };
  selects.forEach((select) => select.addEventListener("change", filter));
  controls.append(shown);
  table.parentElement.before(controls);
  filter();
}

// One series at a time: there are many. All are in the page, and all are printed by none.
function makeChooser(section) {
  const figures = Array.from(section.querySelectorAll("figure"));
  if (figures.length < 2) return;
  const controls = element("div", "");
  controls.className = "controls";
  const select = document.createElement("select");
  select.append(...figures.map((figure) => new Option(figure.querySelector("strong").textContent, figure.id)));
  controls.append(labelled("Trial", select, "chosen-series"));
  const choose = () => {
    figures.forEach((figure) => (figure.hidden = figure.id !== select.value));
    drawAll(figures.filter((figure) => !figure.hidden));
  };
  select.addEventListener("change", choose);
  figures[0].before(controls);
  figures.forEach((figure, place) => (figure.hidden = place > 0));
}

const MARGIN_PX = 90; // beside pictures that stand above each other: the axis and its title
const NARROW_PX = 600;
const SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"; // a name; nothing is fetched

function fitted(spec, width) {
  for (const part of spec.vconcat || []) part.width = Math.max(120, width - MARGIN_PX);
  const narrow = width < NARROW_PX;
  spec.$schema = SCHEMA;
  spec.config = JSON.parse(document.getElementById("chart-config").textContent);
  spec.config.legend.columns = narrow ? 1 : 3;
  return spec;
}

async function draw(figure) {
  const chart = figure.querySelector(".chart");
  const width = chart.clientWidth;
  if (!width || chart.dataset.width === String(width)) return;
  chart.dataset.width = String(width);
  const spec = fitted(JSON.parse(figure.querySelector("script.spec").textContent), width);
  // `ast`: expressions are interpreted, so that the page may forbid code made of text.
  const options = { actions: false, renderer: "svg", ast: true, tooltip: false };
  try {
    await window.vegaEmbed(chart, spec, options);
    chart.querySelector("svg").setAttribute("aria-hidden", "true"); // the element around it has the label
  } catch (error) {
    chart.textContent = `This chart could not be drawn (${error.message}); its figures are below.`;
  }
}

async function drawAll(figures) {
  for (const figure of figures) {
    if (!figure.hidden) await draw(figure);
  }
}

async function start() {
  document.querySelectorAll("table.results").forEach((table) => {
    if (table.tBodies[0].rows.length === 0) return;
    makeSortable(table);
    makeFilters(table);
  });
  document.querySelectorAll("#series").forEach(makeChooser);
  const folded = Array.from(document.querySelectorAll("section > details"));
  window.addEventListener("beforeprint", () => folded.forEach((details) => (details.open = true)));
  const figures = Array.from(document.querySelectorAll("figure"));
  let waiting = 0;
  window.addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => drawAll(figures), 200);
  });
  await drawAll(figures);
  document.documentElement.dataset.drawn = "yes";
}

start();
