"use strict";
// Keeps a page of `tunnelbench serve` up to date by server-sent events. Without it the page is as it was when it came.
(() => {
  const REPORT_S = 10; // shortest time between two new reports: a browser on the measuring machine takes CPU time

  const controls = document.getElementById("live-controls");
  const live = document.getElementById("live");
  const address = (live || document.body).dataset.events;
  if (!address || !controls) return;

  const state = document.createElement("span");
  state.setAttribute("role", "status");
  const button = document.createElement("button");
  button.type = "button";
  controls.replaceChildren(button, " ", state);
  let source = null;
  let isPaused = false;

  // A hidden page gets no events, because browsers allow six connections to a server.
  function connect() {
    if (source) source.close();
    source = null;
    button.textContent = isPaused ? "Update this page" : "Stop updating";
    if (isPaused || document.hidden) return;
    source = new EventSource(address);
    source.onopen = () => (state.textContent = "");
    source.onmessage = (event) => take(JSON.parse(event.data));
    source.onerror = () => {
      const isOver = source.readyState === EventSource.CLOSED;
      state.textContent = isOver ? "The server sends no more news; reload the page." : "No connection to the server; trying again.";
    };
  }

  // Shows a new text of the server, which has escaped all that comes from the store. The focus stays where it is.
  function show(text) {
    const focused = document.activeElement && document.activeElement.id;
    const scrolled = Array.from(live.querySelectorAll(".wide"), (frame) => [frame.getAttribute("aria-label"), frame.scrollLeft, frame.scrollTop]);
    live.innerHTML = text;
    for (const [label, left, top] of scrolled) {
      const frame = Array.from(live.querySelectorAll(".wide")).find((each) => each.getAttribute("aria-label") === label);
      if (frame) frame.scrollTo(left, top);
    }
    const again = focused && document.getElementById(focused);
    if (again) again.focus({ preventScroll: true });
  }

  // The name of a folded part that stays the same when its figures change.
  function nameOf(details) {
    const part = details.closest("section");
    return `${part ? part.id : ""} ${details.querySelector("summary").textContent.replace(/\d+/g, "")}`;
  }

  async function showReport() {
    const answer = await fetch(location.href);
    if (!answer.ok || answer.redirected) throw new Error(answer.status);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    const focused = document.activeElement && document.activeElement.id;
    const open = new Set(Array.from(document.querySelectorAll("main details[open]"), nameOf));
    const checked = new Set(Array.from(document.querySelectorAll("main .columns input:checked"), (box) => box.closest("label").textContent));
    const top = window.scrollY;
    document.title = fresh.title;
    document.querySelector("h1").textContent = fresh.querySelector("h1").textContent;
    const main = fresh.querySelector("main");
    for (const details of main.querySelectorAll("details")) details.open = open.has(nameOf(details));
    document.querySelector("main").replaceWith(main);
    const isOver = !fresh.body.dataset.events;
    await fill();
    for (const box of document.querySelectorAll("main .columns input")) {
      if (checked.has(box.closest("label").textContent)) box.click();
    }
    const again = focused && document.getElementById(focused);
    if (again) again.focus({ preventScroll: true });
    window.scrollTo({ top, behavior: "instant" });
    document.documentElement.dataset.filled = String(Number(document.documentElement.dataset.filled || 0) + 1);
    if (isOver) {
      source.close();
      button.remove();
      state.textContent = "The run has ended.";
    }
  }

  let known = document.body.dataset.version;
  let shownAt = 0;
  let waiting = 0;
  let isBusy = false;

  function renewLater(delay) {
    clearTimeout(waiting);
    waiting = setTimeout(renew, delay);
  }

  async function renew() {
    if (isBusy) return renewLater(1000);
    isBusy = true;
    try {
      shownAt = Date.now();
      await showReport();
    } catch (error) {
      state.textContent = `The report could not be fetched (${error.message}).`;
      renewLater(REPORT_S * 1000);
    }
    isBusy = false;
    return undefined;
  }

  function take(text) {
    if (live) return show(text);
    if (known !== text) renewLater(Math.max(0, shownAt + REPORT_S * 1000 - Date.now()));
    known = text;
    return undefined;
  }

  button.addEventListener("click", () => {
    isPaused = !isPaused;
    if (isPaused) clearTimeout(waiting);
    connect();
  });
  document.addEventListener("visibilitychange", connect);
  connect();
  document.documentElement.dataset.live = "yes";
})();
