// Hides the rows of a table that do not match its form. Without this script every row is shown.
for (const form of document.querySelectorAll("form[data-for]")) {
  const rows = [...document.getElementById(form.dataset.for).tBodies[0].rows];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const asked = (name) => (form.elements[name] ? form.elements[name].value : "");
  const filter = () => {
    const words = asked("text").toLowerCase().split(/\s+/);
    let shown = 0;
    rows.forEach((row, place) => {
      const has = (list, word) => !word || (row.dataset[list] || "").split(" ").includes(word);
      row.hidden = !(words.every((word) => texts[place].includes(word)) && has("tunnels", asked("tunnel")) && has("from", asked("from")));
      shown += !row.hidden;
    });
    const hidden = new Set(rows.filter((row) => row.hidden).map((row) => row.dataset.device));
    if (form.dataset.for === "encrypted") {
      document.querySelectorAll(".overview circle").forEach((dot) => dot.classList.toggle("off", hidden.has(dot.dataset.device)));
    }
    form.querySelector("output").value = shown === rows.length ? "" : `${shown} of ${rows.length}`;
  };
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  filter(); // a browser may have kept what was typed
}
document.querySelectorAll("table.sortable").forEach(makeSortable);

const GROUPS = { encrypted: "Encrypted", plain: "Not encrypted", unknown: "Encryption unknown" };

function cell(name, text, className) {
  const made = element(name, text);
  if (className) made.className = className;
  return made;
}

// Lower bounds (≥) and figures that are not comparable (*) have no quotient.
function quotient(one, other) {
  const [first, second] = [one, other].map((text) => Number(text.replace(/,/g, "") || NaN));
  return first > 0 && Number.isFinite(second) ? (second / first).toPrecision(3) : "";
}

// Fills the table with the facts and the figures of two devices; figures that both have come first.
function compareDevices(one, other) {
  const table = document.getElementById("pair");
  const headings = table.tHead.rows[0].cells;
  [one, other].forEach((device, place) => {
    const link = element("a", device.name);
    link.href = device.page;
    headings[3 + place].replaceChildren(link);
  });
  while (table.tBodies.length) table.tBodies[0].remove();
  const facts = table.createTBody();
  facts.className = "facts";
  for (const name of new Set([...Object.keys(one.facts), ...Object.keys(other.facts)])) {
    const row = facts.insertRow();
    row.className = "group";
    row.append(cell("th", name), cell("td", ""), cell("td", ""));
    for (const device of [one, other]) row.append(cell("td", device.facts[name] || "not given"));
    row.append(cell("td", ""));
  }
  const sides = [one, other].map((device) => new Map(device.figures.map((each) => [JSON.stringify(each.slice(0, 5)), each])));
  const keys = Array.from(new Set([...sides[0].keys(), ...sides[1].keys()]));
  for (const [group, title] of Object.entries(GROUPS)) {
    const own = keys.filter((key) => JSON.parse(key)[0] === group);
    if (!own.length) continue;
    own.sort((a, b) => sides.filter((side) => side.has(b)).length - sides.filter((side) => side.has(a)).length);
    const body = table.createTBody();
    const head = body.insertRow();
    head.className = "group";
    const heading = cell("th", title);
    heading.colSpan = 6;
    head.append(heading);
    for (const key of own) {
      const [, , tunnel, payload, direction] = JSON.parse(key);
      const row = body.insertRow();
      const name = cell("th", tunnel);
      name.scope = "row";
      row.append(name, cell("td", payload, "n"), cell("td", direction));
      const texts = sides.map((side) => (side.has(key) ? side.get(key).slice(5) : ["", ""]));
      for (const [text, note] of texts) {
        const figure = cell("td", text, "n");
        figure.title = note;
        row.append(figure);
      }
      row.append(cell("td", quotient(texts[0][0], texts[1][0]), "n"));
    }
  }
  table.hidden = false;
}

// The address may name the page of the first device.
function startComparison(form) {
  const devices = JSON.parse(document.getElementById("devices-data").textContent);
  const { a, b } = form.elements;
  if (devices.length < 2) return;
  const named = devices.findIndex((device) => `#${device.page}` === decodeURIComponent(location.hash));
  a.selectedIndex = Math.max(0, named);
  b.selectedIndex = a.selectedIndex === 0 ? 1 : 0;
  const show = () => compareDevices(devices[a.selectedIndex], devices[b.selectedIndex]);
  form.addEventListener("change", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  show();
}

const comparison = document.getElementById("side-by-side");
if (comparison) startComparison(comparison);
document.documentElement.dataset.drawn = "";
