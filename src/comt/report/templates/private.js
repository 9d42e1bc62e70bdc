
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const lines = data.lines;
  const storeKey = `comt-review/1 ${data.run} ${data.agent}`;
  const STEP = 100;
  const WORDS = { accept: "accepted", reject: "rejected", correct: "corrected" };

  // ---- decisions: in memory, and in the browser's storage where there is one
  let decisions = new Map();
  let stored = true;
  try {
    decisions = new Map(JSON.parse(localStorage.getItem(storeKey) || "[]"));
  } catch { stored = false; }
  const keep = () => {
    try { localStorage.setItem(storeKey, JSON.stringify([...decisions])); } catch { stored = false; }
  };

  // ---- small helpers; text only ever enters the page as text
  const make = (tag, props = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(props)) {
      if (name in element && typeof value !== "string") element[name] = value;
      else element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  };
  const number = (value) => {
    if (!Number.isFinite(value)) return String(value);
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-4 || size >= 1e7)) return value.toPrecision(3).replace("-", "−");
    const digits = size === 0 ? 0 : Math.max(0, 3 - Math.floor(Math.log10(size)));
    return Number(value.toFixed(digits)).toLocaleString("en-US", { maximumFractionDigits: 10 }).replace("-", "−");
  };
  const text = (value) => value === null ? "–" : typeof value === "number" ? number(value) : String(value);
  const percent = (score) => {
    if (score > 0.999 && score < 1) return "> 99.9 %";
    if (score > 0 && score < 0.001) return "< 0.1 %";
    return `${(100 * score).toFixed((score > 0 && score < 0.0995) || (score > 0.99 && score < 1) ? 1 : 0)} %`;
  };
  const swap = (name, given, suggested) => {
    const span = make("span", { class: text(given).length + text(suggested).length < 26 ? "swap short" : "swap" });
    if (name) span.append(make("span", { class: "name" }, name));
    span.append(make("del", { title: `given: ${given}` }, text(given)));
    if (suggested !== null) span.append(" →\u00a0", make("ins", { title: `suggested: ${suggested}` }, text(suggested)));
    return span;
  };
  const targetChanges = (line) => line.given !== line.suggested;
  // a row that is not flagged has a prediction beside its target, which is no suggestion
  const suggests = (line) => suggestsTarget(line) || line.changes.some(([, value]) => value !== null);
  const suggestsTarget = (line) => targetChanges(line) && line.flagged && !data.aside.includes(line.kind);

  // ---- view: which lines, in which order
  const inspectOrder = new Map(data.inspect.map((row, place) => [row, place]));
  const VIEWS = [
    ["inspect", "Look at these", (line) => inspectOrder.has(line.row)],
    ["flagged", "Flagged", (line) => line.flagged],
    ["all", "All", () => true],
  ].filter(([name, , has]) => name === "all" || lines.some(has));
  const COLUMNS = [
    ["row", "Row", (line) => line.row, 1, "right"],
    ["score", "How sure", (line) => line.score, -1, ""],
    ["kind", "What", (line) => line.kind, 1, ""],
    ["cells", "Given → suggested"],
    ["size", "Change", (line) => line.size ?? -1, -1, "right"],
    ["why", "Why"],
    ["decision", "Your decision", (line) => (decisions.get(line.row) || {}).decision || "~", 1, ""],
  ].filter(([name]) => name !== "size" || lines.some((line) => line.flagged && line.size !== null));
  const sortable = (column) => column.length > 2;
  const state = { view: VIEWS[0][0], sort: "", direction: -1, limit: STEP, open: new Set(), current: null };

  const words = new Map();
  const wordsOf = (line) => {
    if (!words.has(line.row)) {
      words.set(line.row, [`row ${line.row}`, line.given, line.suggested, line.why, line.kind, data.kinds[line.kind], line.sure, ...line.cells]
        .filter((value) => value !== null).map((value) => `${value} ${text(value)}`).join("\n").toLowerCase());
    }
    return words.get(line.row);
  };
  const visible = () => {
    const has = VIEWS.find(([name]) => name === state.view)[2];
    const [kind, drawn, decided] = ["kind", "drawn", "decided"].map((id) => byId(id).value);
    const wanted = byId("search").value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const found = lines.filter((line) => {
      const decision = (decisions.get(line.row) || {}).decision || "open";
      return has(line) && (!kind || line.kind === kind) && (!drawn || (line.drawn || "worst") === drawn)
        && (!decided || decision === decided) && wanted.every((word) => wordsOf(line).includes(word));
    });
    if (state.sort) {
      const value = COLUMNS.find(([name]) => name === state.sort)[2];
      const compare = (a, b) => (a > b) - (a < b);
      found.sort((a, b) => state.direction * compare(value(a), value(b)) || b.score - a.score);
    } else if (state.view === "inspect") {
      found.sort((a, b) => inspectOrder.get(a.row) - inspectOrder.get(b.row));
    }
    return found;
  };

  // ---- the table
  const body = document.querySelector("#table tbody");
  const decide = (line, decision) => {
    const now = decisions.get(line.row);
    if (!decision || (now && now.decision === decision)) decisions.delete(line.row);
    else decisions.set(line.row, { decision, target: null, changes: {} });
    if (decision === "correct" && decisions.has(line.row)) state.open.add(line.row);
    keep();
    refresh(line);
    if (decision === "correct" && decisions.has(line.row)) body.querySelector(`#details-${line.row} :is(select, input)`)?.focus();
  };
  const buttons = (line) => {
    const cell = make("td", { class: "decide", "data-name": "Decision" });
    const chosen = (decisions.get(line.row) || {}).decision;
    const choices = [["accept", "Accept", "The suggestion is right"], ["reject", "Reject", "The row is right as it is"], ["correct", "Correct", "I enter what is right"]];
    if (!suggests(line)) choices.splice(0, 2, ["reject", "Is right", "The row is right as it is"]);
    for (const [choice, title, meaning] of choices) {
      const button = make("button", { type: "button", "data-choice": choice, "aria-pressed": String(chosen === choice), title: meaning }, title);
      button.addEventListener("click", (event) => { event.stopPropagation(); decide(line, choice); focusLine(line, choice); });
      cell.append(button);
    }
    cell.append(make("span", { class: "said" }, chosen ? (chosen === "reject" ? "is right" : WORDS[chosen]) : "open"));
    return cell;
  };
  const lineOf = (line) => {
    const chosen = (decisions.get(line.row) || {}).decision || "";
    const row = make("tr", { class: `line${line.flagged ? " flagged" : ""}${state.open.has(line.row) ? " open" : ""}`, id: `line-${line.row}`, tabIndex: -1,
      "data-row": String(line.row), "data-decision": chosen, "aria-expanded": String(state.open.has(line.row)) });
    const gauge = make("div");
    gauge.style.width = `${100 * line.score}%`;
    const what = make("td", { class: "what", "data-name": "What" });
    if (line.flagged) what.append(make("span", { class: "chip" }, data.kinds[line.kind] || line.kind));
    if (line.drawn === "random") what.append(" ", make("span", { class: "chip random", title: "drawn at random" }, "random"));
    if (!line.used) what.append(" ", make("span", { class: "chip random", title: "not learnt from" }, "set aside"));
    const swaps = make("td", { class: "swaps", "data-name": "Cells" });
    if (suggestsTarget(line)) swaps.append(swap(data.target, line.given, line.suggested));
    for (const [place, value] of line.changes) swaps.append(swap(data.columns[place], line.cells[place], value));
    if (!swaps.childNodes.length) swaps.append(make("span", { class: "swap" }, make("span", { class: "name" }, data.target), text(line.given)));
    const cells = {
      row: make("td", { class: "row right", "data-name": "Row" }, make("span", { class: "turn", "aria-hidden": "true" }), String(line.row)),
      score: make("td", { class: "sure", "data-name": "How sure" }, percent(line.score), make("small", {}, line.sure), make("div", { class: "gauge" }, gauge)),
      kind: what, cells: swaps,
      size: make("td", { class: "number right", "data-name": "Change" }, line.size === null || !line.flagged ? "–" : `${number(Number(line.size.toPrecision(2)))} spreads`),
      why: make("td", { class: "why", "data-name": "Why" }, line.why),
      decision: buttons(line),
    };
    row.append(...COLUMNS.map(([name]) => cells[name]));
    row.addEventListener("click", () => { if (!String(getSelection())) toggle(line); });
    row.addEventListener("focus", () => setCurrent(line.row));
    return row;
  };
  const parsed = (given, entered) => {
    const trimmed = entered.trim();
    if (typeof given !== "number") return trimmed === "" ? undefined : trimmed;
    const value = Number(trimmed);
    return trimmed === "" || !Number.isFinite(value) ? undefined : value;
  };
  const entry = (line, name, given, now, save) => {
    const id = `enter-${line.row}-${name}`;
    let input;
    if (name === data.target && data.classes.length) {
      input = make("select", { id });
      data.classes.forEach((label) => input.append(make("option", { selected: label === now }, text(label))));
      input.addEventListener("change", () => save(data.classes[input.selectedIndex]));
    } else {
      input = make("input", { id, type: "text", autocomplete: "off", inputmode: typeof given === "number" ? "decimal" : "text" });
      input.value = now === null ? "" : String(now);
      input.addEventListener("input", () => {
        const value = parsed(given, input.value);
        input.setAttribute("aria-invalid", String(value === undefined && input.value !== String(given ?? "")));
        save(value === undefined ? given : value);
      });
    }
    return make("div", {}, make("label", { for: id }, name), input);
  };
  const detailsOf = (line) => {
    const cells = make("dl", { class: "cells" });
    const decision = decisions.get(line.row);
    const correcting = decision && decision.decision === "correct";
    const suggested = new Map(line.changes.map(([place, value]) => [place, value]));
    const show = (name, given, value, changed) => {
      const item = make("dd");
      if (changed) item.append(swap("", given, value)); else item.append(text(given));
      const group = make("div", { class: changed ? "changed" : "" }, make("dt", {}, name), item);
      cells.append(group);
    };
    if (correcting) {
      cells.append(entry(line, data.target, line.given, decision.target ?? line.given, (value) => {
        decision.target = value === line.given ? null : value; keep(); progress();
      }));
    } else show(data.target, line.given, line.suggested, suggestsTarget(line));
    data.columns.forEach((name, place) => {
      const given = line.cells[place];
      if (correcting && data.editable[place]) {
        const group = entry(line, name, given, name in decision.changes ? decision.changes[name] : given, (value) => {
          if (value === given) delete decision.changes[name]; else decision.changes[name] = value;
          keep(); progress();
        });
        if (suggested.has(place)) group.classList.add("changed");
        cells.append(group);
      } else show(name, given, suggested.get(place) ?? null, suggested.has(place));
    });
    const cell = make("td", { colSpan: COLUMNS.length });
    if (correcting) cell.append(make("p", { class: "hint" }, "Enter what is right; what you leave alone stays as the file has it."));
    else if (targetChanges(line) && !suggestsTarget(line)) cell.append(make("p", { class: "hint" }, `The joint model expects ${text(line.suggested)} for ${data.target}.`));
    cell.append(cells);
    return make("tr", { class: "details", id: `details-${line.row}` }, cell);
  };
  const lineByRow = new Map(lines.map((line) => [line.row, line]));
  const refresh = (line) => {
    const old = byId(`line-${line.row}`);
    if (old) {
      byId(`details-${line.row}`)?.remove();
      const hadFocus = document.activeElement && old.contains(document.activeElement);
      const fresh = lineOf(line);
      old.replaceWith(fresh);
      if (state.open.has(line.row)) fresh.after(detailsOf(line));
      if (state.current === line.row) fresh.tabIndex = 0;
      if (hadFocus) fresh.focus();
    }
    progress();
  };
  const toggle = (line) => {
    if (state.open.has(line.row)) state.open.delete(line.row); else state.open.add(line.row);
    refresh(line);
    byId(`line-${line.row}`).focus();
  };
  const setCurrent = (row) => {
    const before = byId(`line-${state.current}`);
    if (before) before.tabIndex = -1;
    state.current = row;
    const now = byId(`line-${row}`);
    if (now) now.tabIndex = 0;
  };
  const focusLine = (line, choice) => byId(`line-${line.row}`)?.querySelector(choice === "correct" && decisions.has(line.row) ? "none" : `[data-choice="${choice}"]`)?.focus();
  const render = () => {
    const found = visible();
    const shown = found.slice(0, state.limit);
    const part = document.createDocumentFragment();
    for (const line of shown) {
      part.append(lineOf(line));
      if (state.open.has(line.row)) part.append(detailsOf(line));
    }
    if (!shown.length) part.append(make("tr", {}, make("td", { colSpan: COLUMNS.length }, "No row fits this search and these filters.")));
    body.replaceChildren(part);
    if (shown.length) setCurrent(shown.some((line) => line.row === state.current) ? state.current : shown[0].row);
    byId("count").textContent = `${shown.length.toLocaleString("en-US")} of ${found.length.toLocaleString("en-US")} matching rows shown`;
    if (shown.length === found.length) byId("count").textContent = `${found.length.toLocaleString("en-US")} row${found.length === 1 ? "" : "s"}`;
    byId("more").hidden = shown.length === found.length;
    byId("more").textContent = `Show ${Math.min(STEP, found.length - shown.length)} more`;
    document.querySelectorAll("#table thead th").forEach((head, place) => {
      const [name] = COLUMNS[place];
      if (sortable(COLUMNS[place])) head.setAttribute("aria-sort", name !== state.sort ? "none" : state.direction > 0 ? "ascending" : "descending");
    });
    for (const button of byId("views").children) button.setAttribute("aria-pressed", String(button.dataset.view === state.view));
    byId("sort").value = state.sort;
    progress();
  };

  // ---- review: progress, export
  const complete = ([, decision]) => decision.decision !== "correct" || decision.target !== null || Object.keys(decision.changes).length > 0;
  const progress = () => {
    const inFocus = data.inspect.length ? data.inspect : lines.map((line) => line.row);
    const done = inFocus.filter((row) => decisions.has(row) && complete([row, decisions.get(row)])).length;
    const all = [...decisions].filter(complete).length;
    const unfinished = decisions.size - all;
    byId("done").textContent = `${done} of ${inFocus.length.toLocaleString("en-US")} reviewed`;
    byId("kept").textContent = [all > done ? `and ${all - done} other` : "", unfinished ? `${unfinished} correction${unfinished > 1 ? "s" : ""} without a value` : "",
      stored ? "" : "not kept when you close the page: export before"].filter(Boolean).join("; ");
    byId("meter").style.width = `${100 * done / Math.max(inFocus.length, 1)}%`;
    byId("export").disabled = all === 0;
    byId("forget").disabled = decisions.size === 0;
  };
  const review = () => ({
    format: "comt-review/1", agent: data.agent, run: data.run,
    decisions: [...decisions].filter(complete).filter(([row]) => lineByRow.has(row)).sort(([a], [b]) => a - b).map(([row, { decision, target, changes }]) => {
      const line = lineByRow.get(row);
      const drawn = line.drawn || "worst";
      if (decision === "reject") return { row, decision, target: null, changes: {}, drawn };
      if (decision === "correct") return { row, decision, target, changes, drawn };
      const wanted = line.changes.filter(([, value]) => value !== null).map(([place, value]) => [data.columns[place], value]);
      return { row, decision, target: suggestsTarget(line) ? line.suggested : line.given, changes: Object.fromEntries(wanted), drawn };
    }),
  });
  const download = () => {
    if (byId("export").disabled) return;
    const url = URL.createObjectURL(new Blob([`${JSON.stringify(review(), null, 1)}\n`], { type: "application/json" }));
    const link = make("a", { href: url, download: `review-${data.agent.replace(/[\\/:*?"<>|\u0000-\u001f]/g, "_")}.json` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 60000);
  };

  // ---- controls
  const head = document.querySelector("#table thead tr");
  for (const column of COLUMNS) {
    const [name, title, , first, side] = column;
    const cell = make("th", { scope: "col", class: side || "" });
    if (sortable(column)) {
      const button = make("button", { type: "button" }, title);
      button.addEventListener("click", () => {
        if (state.sort !== name) [state.sort, state.direction] = [name, first];
        else if (state.direction === first) state.direction = -first;
        else state.sort = "";
        render();
      });
      cell.append(button);
    } else cell.append(title);
    head.append(cell);
  }
  byId("sort").append(make("option", { value: "" }, "as listed"), ...COLUMNS.filter(sortable).map(([name, title]) => make("option", { value: name }, title)));
  byId("sort").addEventListener("change", () => {
    state.sort = byId("sort").value;
    if (state.sort) state.direction = COLUMNS.find(([name]) => name === state.sort)[3];
    render();
  });
  for (const [view, title, has] of VIEWS) {
    const button = make("button", { type: "button", "data-view": view }, `${title} ${lines.filter(has).length.toLocaleString("en-US")}`);
    button.addEventListener("click", () => { state.view = view; state.limit = STEP; render(); });
    byId("views").append(button);
  }
  const kinds = [...new Set(lines.map((line) => line.kind))].sort();
  for (const kind of kinds) byId("kind").append(make("option", { value: kind }, data.kinds[kind] || kind));
  byId("kind").parentElement.hidden = kinds.length < 2;
  byId("drawn").parentElement.hidden = !data.inspect.length;
  for (const id of ["kind", "drawn", "decided"]) byId(id).addEventListener("change", () => { state.limit = STEP; render(); });
  byId("search").addEventListener("input", () => { state.limit = STEP; render(); });
  byId("more").addEventListener("click", () => { state.limit += STEP; render(); });
  byId("export").addEventListener("click", download);
  byId("forget").addEventListener("click", () => {
    if (!confirm(`Forget all ${decisions.size} decisions of this page?`)) return;
    decisions = new Map();
    state.open.clear();
    try { localStorage.removeItem(storeKey); } catch { stored = false; }
    render();
  });
  const help = () => {
    byId("keys").hidden = !byId("keys").hidden;
    byId("help").setAttribute("aria-expanded", String(!byId("keys").hidden));
  };
  byId("help").addEventListener("click", help);

  // ---- keyboard
  const move = (by) => {
    const rows = [...body.querySelectorAll("tr.line")];
    const place = rows.findIndex((row) => row.dataset.row === String(state.current));
    rows[Math.min(Math.max(place + by, 0), rows.length - 1)]?.focus();
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.closest("input, select, textarea");
    if (typing) {
      if (event.key === "Escape") {
        const line = typing.closest("tr.details")?.previousElementSibling;
        typing.blur();
        (line || byId(`line-${state.current}`))?.focus();
      }
      return;
    }
    const inTable = event.target.closest("tr.line");
    const line = inTable && lineByRow.get(Number(inTable.dataset.row));
    const actions = {
      "/": () => byId("search").focus(), "?": help, e: download,
      j: () => move(inTable ? 1 : 0), k: () => move(-1),
      ...(line ? { ArrowDown: () => move(1), ArrowUp: () => move(-1), a: () => decide(line, suggests(line) ? "accept" : "reject"), r: () => decide(line, "reject"),
        c: () => decide(line, "correct"), u: () => decide(line, "") } : {}),
      ...(line && event.target === inTable ? { Enter: () => toggle(line), " ": () => toggle(line) } : {}),
    };
    if (Object.hasOwn(actions, event.key)) { event.preventDefault(); actions[event.key](); }
  });

  byId("tool").hidden = false;
  render();
})();
