// Keys, dragging, joining lines, dropped files, and news from the server. Pages work without it, but for
// editing and dropping.
"use strict";

// What a page shows; it is replaced as a whole inside #page, which stays.
const page = () => document.getElementById("view");
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
let selected = null; // row of the record that is selected in the list
let selectedAt = -1; // its place there: another record takes it when the filter hides this one
let decided = null; // row of the record that was decided about last
let held = null; // the value that is being moved: its place on the right side

// Draw lines from items on the left to items on the right; those that move lie above the others.

function join(root, pairs) {
  const svg = root.querySelector(".joins");
  const box = svg.getBoundingClientRect();
  svg.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
  svg.replaceChildren();
  const middle = (item) => {
    const { top, height } = item.getBoundingClientRect();
    return top - box.top + height / 2;
  };
  const moves = ([, item]) => item.classList.contains("moved");
  for (const [from, to] of pairs.toSorted((a, b) => moves(a) - moves(b))) {
    const [y1, y2, w] = [middle(from), middle(to), box.width];
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", `M0 ${y1}C${w / 2} ${y1} ${w / 2} ${y2} ${w} ${y2}`);
    path.setAttribute("class", to.className);
    svg.append(path);
  }
}

// Put an order into the form (null: as proposed), and offer to go back to the proposal.

function offer(order, edited) {
  const form = document.querySelector("form.decide");
  form.elements.order.value = order ? JSON.stringify(order) : "";
  form.querySelector("[data-reset]").hidden = !edited;
}

// The editor: `order[place]` is the column that the value after the repair comes from.

class Editor {
  constructor(root) {
    this.root = root;
    this.places = all(".now-side li", root).map((item) => Number(item.dataset.place));
    this.proposed = this.whole(root.dataset.proposed);
    this.order = this.whole(root.dataset.order);
    this.began = JSON.stringify(this.moved());
    all(".then-side .value", root).forEach((button) => this.listen(button));
    this.draw();
  }

  whole(text) {
    const moved = JSON.parse(text);
    return Object.fromEntries(this.places.map((place) => [place, moved[place] ?? place]));
  }

  moved() {
    return Object.fromEntries(this.places.filter((p) => this.order[p] !== p).map((p) => [p, this.order[p]]));
  }

  get isDirty() {
    return JSON.stringify(this.moved()) !== this.began;
  }

  exchange(a, b) {
    [this.order[a], this.order[b]] = [this.order[b], this.order[a]];
    this.draw();
  }

  reset() {
    this.order = { ...this.proposed };
    this.draw();
  }

  draw() {
    const left = Object.fromEntries(all(".now-side li", this.root).map((item) => [item.dataset.place, item]));
    const right = all(".then-side li", this.root);
    const gives = new Set(Object.values(this.moved()));
    for (const place of this.places) left[place].classList.toggle("moved", gives.has(place));
    for (const item of right) {
      const place = Number(item.dataset.place);
      const origin = this.order[place];
      const button = item.querySelector(".value");
      const from = left[origin].querySelector(".col").textContent;
      button.textContent = left[origin].querySelector(".value").textContent;
      const column = item.querySelector(".col").textContent;
      const where = origin === place ? "stays" : `comes from ${from}`;
      button.setAttribute("aria-label", `${column}: ${button.textContent}, ${where}`);
      item.classList.toggle("moved", origin !== place);
      item.classList.toggle("edited", origin !== this.proposed[place]);
    }
    join(this.root, right.map((item) => [left[this.order[Number(item.dataset.place)]], item]));
    const edited = this.places.some((place) => this.order[place] !== this.proposed[place]);
    offer(this.isDirty || edited ? this.moved() : null, edited);
  }

  listen(button) {
    const place = () => Number(button.closest("li").dataset.place);
    const item = button.closest("li");
    button.addEventListener("dragstart", (event) => {
      held = place();
      event.dataTransfer.effectAllowed = "move";
      event.dataTransfer.setData("text/plain", "");
    });
    button.addEventListener("dragend", () => this.release());
    item.addEventListener("dragover", (event) => {
      if (held === null) return;
      event.preventDefault();
      this.aim(item);
    });
    item.addEventListener("drop", (event) => {
      event.preventDefault();
      if (held !== null) this.exchange(held, Number(item.dataset.place));
      this.release();
    });
    // Fingers do not drag: a tap picks a value up, another one puts it down.
    button.addEventListener("click", () => this.pick(place()));
    button.addEventListener("keydown", (event) => this.key(event, place()));
  }

  key(event, place) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      const next = this.places[this.places.indexOf(place) + step];
      if (next === undefined) return;
      this.button(next).focus();
      if (held !== null) {
        this.aim(this.button(next).closest("li"));
        tell(`to ${this.name(next)}`);
      }
    } else if (event.key === "Escape" && held !== null) {
      event.stopPropagation();
      this.release();
      tell("Put back.");
    }
  }

  pick(place) {
    if (held === null) {
      held = place;
      this.button(place).classList.add("held");
      tell(`${this.button(place).textContent} picked up. Arrows choose a column, Space puts it down.`);
    } else {
      const from = held;
      this.release();
      if (from !== place) {
        this.exchange(from, place);
        tell(`${this.name(from)} and ${this.name(place)} changed places.`);
      }
      this.button(place).focus();
    }
  }

  aim(item) {
    all(".target", this.root).forEach((each) => each.classList.remove("target"));
    item.classList.add("target");
  }

  release() {
    held = null;
    all(".target, .held", this.root).forEach((each) => each.classList.remove("target", "held"));
  }

  button(place) {
    return this.root.querySelector(`.then-side li[data-place="${place}"] .value`);
  }

  name(place) {
    return this.root.querySelector(`.then-side li[data-place="${place}"] .col`).textContent;
  }
}

// The editor of a line with one field too many or too few: a column is chosen, and the rest follows.

class LineEditor {
  constructor(root) {
    this.root = root;
    this.origin = Number(root.dataset.origin);
    this.now = all(".now-side li", root);
    this.then = all(".then-side li", root);
    this.fields = this.now.map((item) => item.querySelector(".value").textContent);
    this.choice = document.querySelector("[data-choice]");
    [this.began, this.proposed] = ["order", "proposed"].map((name) => Object.keys(JSON.parse(root.dataset[name]))[0] ?? "");
    this.choice?.addEventListener("change", () => this.draw());
    this.draw();
  }

  get isDirty() {
    return (this.choice?.value ?? "") !== this.began;
  }

  reset() {
    this.choice.value = this.proposed;
    this.draw();
  }

  // The fields of the line that make the value of a column.
  sources(column) {
    const chosen = this.choice?.value ? Number(this.choice.value) : null;
    if (chosen === null || column < chosen) return column < this.fields.length ? [column] : [];
    if (this.origin === -1) return column === chosen ? [column, column + 1] : [column + 1];
    return column === chosen ? [] : [column - 1];
  }

  draw() {
    const chosen = this.choice?.value ?? "";
    this.now.forEach((item) => item.classList.remove("moved"));
    const pairs = this.then.flatMap((item, column) => {
      const sources = this.sources(column);
      const text = sources.map((k) => this.fields[k]).join(this.root.dataset.between);
      item.querySelector(".value").textContent = sources.length ? text : "empty";
      item.classList.toggle("moved", chosen === item.dataset.place);
      item.classList.toggle("edited", chosen === item.dataset.place && chosen !== this.proposed);
      if (chosen === item.dataset.place) sources.forEach((k) => this.now[k].classList.add("moved"));
      return sources.map((k) => [this.now[k], item]);
    });
    join(this.root, pairs);
    const edited = chosen !== this.proposed;
    offer(chosen && (this.isDirty || edited) ? { [chosen]: this.origin } : null, edited);
    const accept = document.querySelector("form.decide [value=accept]");
    if (accept) accept.disabled = !chosen;
  }
}

let editor = null;

// The list: one record is selected.

const lines = () => all("tr[data-row]");
const line = () => lines().find((each) => each.dataset.row === selected) ?? null;

function select(row, { focus = true } = {}) {
  lines().forEach((each) => each.classList.toggle("selected", each === row));
  if (!row) return;
  selected = row.dataset.row;
  selectedAt = lines().indexOf(row);
  if (focus) row.querySelector("a.open").focus({ preventScroll: true });
  const { top, bottom } = row.getBoundingClientRect();
  if (top < 80 || bottom > innerHeight) row.scrollIntoView({ block: "center" });
}

function step(by) {
  const rows = lines();
  if (!rows.length) return;
  const at = rows.indexOf(line());
  const next = at < 0 ? (by > 0 ? 0 : rows.length - 1) : at + by;
  if (next >= 0 && next < rows.length) select(rows[next]);
  else document.querySelector(next < 0 ? "a[rel=prev]" : "a[rel=next]")?.click();
}

// Keys.

let busy = 0; // requests that are not answered yet
const waiting = []; // keys that were pressed meanwhile

const answers = { a: "accept", r: "reject", w: "owner", u: "undo" };

function press(event) {
  const typing = event.target.closest("input, select, textarea");
  if (event.key === "Escape" && typing) return typing.blur();
  if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (!"?jkoarwuenl".includes(event.key)) return;
  event.preventDefault();
  // A key is about the page that the person expects: the one that is on its way.
  if (busy) waiting.push(event.key);
  else act(event.key);
}

function act(key) {
  if (key === "?") document.getElementById("keys").showModal();
  else if (page().dataset.page === "records") pressInList(key);
  else if (page().dataset.page === "record") pressInRecord(key);
}

function pressInList(key) {
  if (key === "j") step(1);
  else if (key === "k") step(-1);
  else if (key === "o") line()?.querySelector("a.open").click();
  else if (key in answers) {
    const button = line()?.querySelector(`button[value=${answers[key]}]`);
    if (button) button.click();
    else if (key !== "u" && !line()) tell("No record is selected: j selects one.");
    else if (key !== "u") tell(line().matches(".is-open") ? "Nothing is proposed for this record." : "Decided already: u undoes.");
    else if (decided !== null) send("POST", { row: decided, answer: "undo" });
    else tell("Nothing is decided about this record.");
  }
}

function pressInRecord(key) {
  if (key === "e") document.querySelector("[data-choice], .then-side li.moved button, .then-side button")?.focus();
  else if (key === "n") document.getElementById("note").focus();
  else all(`[data-key="${key}"]:not(:disabled)`)[0]?.click();
}

// Dropped and chosen files.

function receive(zone) {
  const state = zone.querySelector(".upload-state");
  const send = async (file) => {
    if (!file) return;
    state.textContent = `Reading ${file.name} …`;
    const address = `${zone.dataset.upload}?name=${encodeURIComponent(file.name)}`;
    const response = await fetch(address, { method: "POST", body: file });
    if (response.status === 204) return location.assign("/");
    const text = await response.text();
    const answer = new DOMParser().parseFromString(text, "text/html");
    const refusal = answer.querySelector(".refusal");
    if (refusal) state.textContent = refusal.textContent;
    else {
      page().replaceWith(document.adoptNode(answer.getElementById("view")));
      htmx.process(page());
      settle();
    }
  };
  zone.addEventListener("dragover", (event) => {
    event.preventDefault();
    zone.classList.add("over");
  });
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    send(event.dataTransfer.files[0]);
  });
  zone.querySelector("input[type=file]").addEventListener("change", (event) => send(event.target.files[0]));
}

// News: progress of a job, and what other tabs decide.

function tell(text) {
  document.getElementById("live").textContent = text;
}

function warn(text) {
  tell(text);
  const place = document.querySelector(".said");
  place.textContent = text;
  place.className = "said stays";
}

// Ask for the page that is shown once more, or send it something.

function send(verb, values = {}) {
  const address = location.pathname + location.search;
  htmx.ajax(verb, address, { target: "#page", select: "#view", swap: "innerHTML", values }).catch(() => {});
}

function listen() {
  const news = new EventSource("/events");
  news.addEventListener("progress", (event) => {
    if (page().dataset.page !== "progress") return;
    const now = JSON.parse(event.data);
    const part = (name) => document.querySelector(`[data-progress=${name}]`);
    part("stage").textContent = now.stage;
    part("bar").value = now.percent;
    part("percent").textContent = `${now.percent}%`;
    part("time").textContent = now.time;
  });
  news.addEventListener("changed", (event) => {
    if (page().dataset.page === "progress") return location.assign("/");
    // A moment later: the answer to this tab's own decision may be on its way.
    setTimeout(() => {
      if (Number(page().dataset.version) >= Number(event.data)) return;
      const writes = document.activeElement?.matches("textarea, input") || editor?.isDirty;
      if (writes) warn("Something was decided in another tab; reload to see it.");
      else send("GET");
    }, 400);
  });
  addEventListener("pagehide", () => news.close());
}

// A decision changes one or two lines of a list: everything else stays the element that it is, which
// neither htmx nor the browser need look at again. A whole new page takes several times as long.

function patch(event) {
  const old = page();
  const view = new DOMParser().parseFromString(event.detail.serverResponse, "text/html").getElementById("view");
  if (old.dataset.page !== "records" || view?.dataset.page !== "records") return;
  const parts = (root) => [root.querySelector(".bar"), ...root.querySelector("main").children];
  const [now, then] = [parts(old), parts(view)];
  const alike = (each, k) => each.tagName === then[k].tagName && each.classList[0] === then[k].classList[0];
  if (now.length !== then.length || !now.every(alike)) return;
  event.detail.shouldSwap = false;
  select(null);
  now.forEach((each, k) => (each.matches(".list-box") ? patchLines(each, then[k]) : renew(each, then[k])));
  Object.assign(old.dataset, view.dataset);
  settle();
}

function patchLines(box, fresh) {
  const body = box.querySelector("tbody");
  const known = new Map(lines().map((each) => [each.dataset.row, each]));
  const next = all("tbody tr", fresh).map((each) => renew(known.get(each.dataset.row) ?? each, each));
  all("tr", body).filter((each) => !next.includes(each)).forEach((each) => each.remove());
  next.forEach((each, k) => {
    if (body.children[k] === each) return;
    body.insertBefore(each, body.children[k] ?? null);
    htmx.process(each);
  });
}

// Put a new element in the place of an old one that looks otherwise, and return the one that is there.

function renew(old, fresh) {
  if (old.outerHTML === fresh.outerHTML) return old;
  old.replaceWith(fresh);
  htmx.process(fresh);
  return fresh;
}

// After every change of the page.

function settle() {
  const { message } = page().dataset;
  if (message) tell(message);
  held = null;
  const root = document.querySelector(".editor");
  editor = root && (root.matches(".of-line") ? new LineEditor(root) : new Editor(root));
  document.querySelector("[data-reset]")?.addEventListener("click", () => editor.reset());
  all("[data-upload]").forEach(receive);
  if (page().dataset.page === "records" && selected !== null) select(line() ?? lines()[Math.min(selectedAt, lines().length - 1)]);
}

addEventListener("keydown", press);
addEventListener("resize", () => editor?.draw());
addEventListener("click", (event) => {
  const row = event.target.closest("tr[data-row]");
  if (row) select(row, { focus: false });
});
document.addEventListener("htmx:afterSettle", settle);
document.addEventListener("htmx:beforeSwap", (event) => {
  if (event.detail.requestConfig.verb === "post") patch(event);
});
document.addEventListener("htmx:beforeRequest", ({ target }) => {
  busy += 1;
  if (target.matches("tr [data-decide]")) decided = target.elements.row.value;
});
document.addEventListener("htmx:afterRequest", () => {
  busy = Math.max(0, busy - 1);
  while (!busy && waiting.length) act(waiting.shift());
});
document.addEventListener("htmx:sendError", () => {
  warn("The workbench does not answer: nothing was decided. Is `unpermute review` still running?");
});
settle();
listen();
