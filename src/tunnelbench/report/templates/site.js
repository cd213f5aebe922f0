"use strict";
// Hides the rows of a table that do not hold what its form asks for. Without it every row is shown.
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
    form.querySelector("output").value = shown === rows.length ? "" : `${shown} of ${rows.length}`;
  };
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  filter(); // a browser may have kept what was typed
}
document.documentElement.dataset.drawn = "";
