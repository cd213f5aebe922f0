// Filters, columns and charts of a page. Without this the page has all its text and all rows and columns.

const FILTERS = ["Tunnel", "Payload", "Direction"];
const chosen = { tunnel: "", payload: "", direction: "" };

function labelled(text, select, id) {
  const label = element("label", text);
  label.htmlFor = select.id = id;
  const both = element("span", "");
  both.append(label, " ", select);
  return both;
}

function fits(value, name) {
  return !value || !chosen[name] || value === chosen[name];
}

// The filters choose rows of all tables of results, and what the charts draw.
function makeFilters(place, tables, figures) {
  const rows = tables.flatMap((table) => Array.from(table.tBodies[0].rows));
  const controls = element("div", "");
  controls.className = "controls";
  const shown = element("span", "");
  shown.setAttribute("role", "status");
  FILTERS.forEach((title, column) => {
    const name = title.toLowerCase();
    const values = new Set(rows.map((row) => firstText(row.cells[column])));
    const select = document.createElement("select");
    select.append(new Option("all", ""), ...Array.from(values, (value) => new Option(value, value)));
    if (!values.has(chosen[name])) chosen[name] = "";
    select.value = chosen[name]; // a page that fills in keeps the filters
    select.addEventListener("change", () => {
      chosen[name] = select.value;
      filter();
      redraw(figures);
    });
    controls.append(labelled(title, select, `filter-${name}`));
  });
  const filter = () => {
    for (const row of rows) {
      row.hidden = !FILTERS.every((title, column) => fits(firstText(row.cells[column]), title.toLowerCase()));
    }
    for (const row of document.querySelectorAll("table.answer tr[data-tunnel]")) {
      row.hidden = !fits(row.dataset.tunnel, "tunnel");
    }
    shown.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} rows`;
  };
  controls.append(shown);
  place.append(controls);
  filter();
}

function showColumn(table, column, isShown) {
  for (const row of table.rows) row.cells[column].hidden = !isShown;
}

// Columns that most readers do not need are hidden until they are chosen.
function makeColumns(table) {
  const chooser = document.createElement("details");
  chooser.className = "columns";
  chooser.append(element("summary", "Columns"));
  Array.from(table.tHead.rows[0].cells).forEach((heading, column) => {
    if (!heading.classList.contains("more")) return;
    const box = document.createElement("input");
    box.type = "checkbox";
    box.addEventListener("change", () => showColumn(table, column, box.checked));
    const label = element("label", "");
    label.append(box, ` ${heading.textContent}`);
    chooser.append(label);
    showColumn(table, column, false);
  });
  if (chooser.children.length > 1) table.parentElement.before(chooser);
}

// Shows one series at a time, because there are many. All are in the page; only the shown one is printed.
function makeChooser(section) {
  const figures = Array.from(section.querySelectorAll("figure"));
  if (figures.length < 2) return;
  const controls = element("div", "");
  controls.className = "controls";
  const select = document.createElement("select");
  select.append(...figures.map((figure) => new Option(figure.querySelector("strong").textContent, figure.id)));
  controls.append(labelled("Trial", select, "chosen-series"));
  const choose = () => {
    for (const option of select.options) option.disabled = !isWanted(document.getElementById(option.value));
    if (select.selectedOptions[0].disabled) {
      const first = Array.from(select.options).find((option) => !option.disabled);
      if (first) select.value = first.value;
    }
    figures.forEach((figure) => (figure.hidden = figure.id !== select.value || !isWanted(figure)));
  };
  select.addEventListener("change", () => {
    choose();
    drawAll(figures);
  });
  figures[0].before(controls);
  section.chooseSeries = choose;
  choose();
}

function isWanted(figure) {
  return Object.keys(chosen).every((name) => fits(figure.dataset[name], name));
}

function redraw(figures) {
  for (const figure of figures) {
    figure.hidden = !isWanted(figure);
    delete figure.querySelector(".chart").dataset.width;
  }
  for (const section of document.querySelectorAll("section")) if (section.chooseSeries) section.chooseSeries();
  return drawAll(figures);
}

const MARGIN_PX = 90; // the axis and its title, next to pictures that stand above each other
const GAP_PX = 40; // between pictures that stand next to each other
const NARROW_PX = 600;
const SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"; // a name; nothing is fetched

function distinct(values, field) {
  return new Set(values.map((datum) => datum[field]).filter((value) => value !== undefined));
}

// Keeps the names of a scale that are still in the data, with their colours, dashes and shapes.
function reduceScales(part, values) {
  const channels = [part, ...(part.layer || [])].flatMap((each) => Object.values(each.encoding || {}));
  for (const { field, scale } of channels) {
    if (!scale || !Array.isArray(scale.domain) || !["name", "group"].includes(field)) continue;
    const names = distinct(values, field);
    if (scale.range) scale.range = scale.range.filter((_, place) => names.has(scale.domain[place]));
    scale.domain = scale.domain.filter((name) => names.has(name));
  }
}

// Gives each bar the height that it had, and the longest bar the place that the longest had.
function reduceBars(part, before, after) {
  const { field, scale, axis } = part.encoding.y;
  const step = part.height / distinct(before, field).size;
  const name = scale.paddingInner * step;
  const bars = ((step - name) * (distinct(after, "group").size || 1)) / (distinct(before, "group").size || 1);
  part.height = (name + bars) * distinct(after, field).size;
  scale.paddingInner = name / (name + bars);
  scale.paddingOuter = scale.paddingInner / 2;
  axis.labelOffset = -(name + bars) / 2;
  const longest = (values) => Math.max(0, ...values.map((datum) => datum.end || 0));
  const factor = longest(before) ? longest(after) / longest(before) : 1;
  for (const { encoding } of part.layer || []) {
    const own = encoding.x.scale;
    if (own && own.domain && factor) own.domain = own.domain.map((end) => end * factor);
  }
}

// Leaves out the tunnels and directions that the filters exclude. Returns whether something is left.
function reduce(part) {
  const parts = part.hconcat || part.vconcat;
  if (parts) return parts.map(reduce).some(Boolean);
  const before = part.data.values;
  const after = before.filter((datum) => fits(datum.tunnel, "tunnel") && fits(datum.direction, "direction"));
  if (after.length === before.length) return true;
  part.data.values = after;
  reduceScales(part, after);
  if (part.encoding && part.encoding.y.axis) reduceBars(part, before, after);
  return after.length > 0;
}

function fitted(spec, width) {
  const narrow = width < NARROW_PX;
  if (spec.hconcat) {
    const parts = spec.hconcat;
    const each = narrow ? width - GAP_PX / 4 : (width - GAP_PX * (parts.length - 1)) / parts.length - GAP_PX / 4;
    parts.forEach((part, place) => {
      part.width = each;
      part.encoding.y.axis.labels = narrow || place === 0; // pictures next to each other have the same names
    });
    if (narrow) [spec.vconcat, spec.hconcat] = [parts, undefined];
  } else {
    for (const part of spec.vconcat || []) part.width = Math.max(120, width - MARGIN_PX);
  }
  spec.$schema = SCHEMA;
  spec.config = JSON.parse(document.getElementById("chart-config").textContent);
  spec.config.legend.columns = narrow ? 1 : 3;
  return spec;
}

const tip = element("div", "");
tip.className = "tip";
tip.hidden = true;

// Shows the figures of the mark under the pointer; their texts are data and stay text.
function hover(handler, event, item, value) {
  tip.hidden = !value;
  if (!value) return;
  const lines = Object.entries(value).filter(([, text]) => !["", "undefined", "null"].includes(String(text)));
  tip.replaceChildren(...lines.map(([name, text]) => element("div", `${name}: ${text}`)));
  const right = document.documentElement.clientWidth - tip.offsetWidth - 8;
  tip.style.left = `${Math.max(0, Math.min(event.clientX + 14, right))}px`;
  tip.style.top = `${event.clientY + 18}px`;
}

async function draw(figure) {
  const chart = figure.querySelector(".chart");
  const width = chart.clientWidth || document.querySelector("main").clientWidth; // a folded chart has no width
  if (chart.dataset.width === String(width)) return;
  chart.dataset.width = String(width);
  const spec = JSON.parse(figure.querySelector("script.spec").textContent);
  if (!reduce(spec)) {
    figure.hidden = true;
    return;
  }
  // `ast`: expressions are interpreted, so that the page can forbid code made of text.
  const options = { actions: false, renderer: "svg", ast: true, tooltip: hover };
  try {
    await window.vegaEmbed(chart, fitted(spec, width), options);
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

function everyFigure() {
  return Array.from(document.querySelectorAll("figure"));
}

// Makes the controls and the charts for the content that is in the page now.
async function fill() {
  const figures = everyFigure();
  document.querySelectorAll("table.answer").forEach(makeSortable);
  const tables = Array.from(document.querySelectorAll("table.results")).filter((table) => table.tBodies[0].rows.length);
  for (const table of tables) {
    makeColumns(table);
    makeSortable(table);
  }
  if (tables.length) makeFilters(document.getElementById("filters"), tables, figures);
  document.querySelectorAll("#series").forEach(makeChooser);
  for (const details of document.querySelectorAll("details")) {
    details.addEventListener("toggle", () => drawAll(figures)); // at the width that is now known
  }
  await (Object.values(chosen).some(Boolean) ? redraw(figures) : drawAll(figures));
}

async function start() {
  document.body.append(tip);
  const open = (details) => (details.open = true);
  window.addEventListener("beforeprint", () => document.querySelectorAll("section > details").forEach(open));
  let waiting = 0;
  window.addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => drawAll(everyFigure()), 200);
  });
  window.addEventListener("scroll", () => (tip.hidden = true), { passive: true });
  await fill();
  document.documentElement.dataset.drawn = "yes";
}

start();
