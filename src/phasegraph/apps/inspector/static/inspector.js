// The inspector's page. Foreign text is only ever set as text, never as markup.
"use strict";
(() => {
  const held = document.getElementById("data");
  const offline = held ? JSON.parse(held.textContent) : null;
  const at = (id) => document.getElementById(id);
  const state = {
    about: null, question: "", view: null, other: null, base: null, otherName: "", selected: null, open: new Set(),
    details: new Set(), settings: { pipeline: "own" }, flipped: false, graph: null, round: 0, tab: null, pushed: 0,
  };
  const narrow = () => matchMedia("(max-width:900px)").matches;

  // Show invisible characters, and characters that change the text direction, by their code points.
  const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/gu;
  const visible = (text) => String(text).replace(HIDDEN, (one) =>
    "\n\t\u200c\u200d".includes(one) ? one : `⟨U+${one.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);

  function h(tag, attrs, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attrs || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name === "on") for (const [event, call] of Object.entries(value)) node.addEventListener(event, call);
      else if (name === "style") for (const [key, one] of Object.entries(value)) node.style.setProperty(key, one);
      else if (name === "data") Object.assign(node.dataset, value);
      else node.setAttribute(name, value === true ? "" : visible(value));
    }
    node.append(...children.flat(Infinity).filter((one) => one !== null && one !== undefined)
      .map((one) => (one instanceof Node ? one : visible(one))));
    return node;
  }
  const fill = (id, ...children) => at(id).replaceChildren(...children.flat(Infinity).filter(Boolean));
  const say = (text, bad) => { at("status").textContent = visible(text); at("status").className = bad ? "bad" : ""; };
  const number = (value, digits = 3) =>
    value === null || value === undefined ? "–" : Number(value.toPrecision(digits + 1)).toString();
  const signed = (value) => (value === null || value === undefined ? "–" : (value < 0 ? "−" : "+") + Math.abs(value).toFixed(3));
  const percent = (share) => `${Math.round(100 * share)} %`;
  function shares(values) { // integer percentages with the sum 100: round up the largest remainders
    const total = values.reduce((sum, one) => sum + one, 0);
    const exact = values.map((one) => (total ? (100 * one) / total : 0)), whole = exact.map(Math.floor);
    const order = exact.map((one, place) => [whole[place] - one, place]).sort((one, two) => one[0] - two[0]);
    const left = total ? 100 - whole.reduce((sum, one) => sum + one, 0) : 0;
    for (const [, place] of order.slice(0, left)) whole[place] += 1;
    return whole;
  }
  const colour = (name) => (state.about.sources.find((one) => one.name === name) || { colour: "#6f6f6f" }).colour;
  const dot = (name) => h("span", { class: "dot", style: { background: colour(name) } });

  // Requests to the page's own server.

  let token = null;
  try { token = sessionStorage.getItem("phasegraph-token"); } catch { token = null; }
  function keepToken(value) {
    token = value;
    try { sessionStorage.setItem("phasegraph-token", value); } catch { /* without storage, only this page has the token */ }
  }
  function addressed() { // the parameters after #, which browsers do not send to servers
    return new Map([...location.hash.matchAll(/[#&](token|question|settings|other)=([^&]*)/g)].map(([, name, text]) => {
      let said = text;
      try { said = decodeURIComponent(said); } catch { /* use the undecoded text */ }
      return [name, said];
    }));
  }
  function address() {
    const parts = [["question", state.question]];
    if (edited()) parts.push(["settings", JSON.stringify(state.settings)]);
    else if (state.settings.pipeline !== "own") parts.push(["settings", JSON.stringify({ pipeline: state.settings.pipeline })]);
    if (state.otherName) parts.push(["other", state.otherName]);
    return `#${parts.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&")}`;
  }
  const edited = () => Object.keys(state.settings).length > 1;
  function note(fresh) { // add a step to the browser's history; quick moves of a slider count as one step
    if (offline || !state.question || location.hash === address()) return;
    const soon = !fresh && performance.now() - state.pushed < 1500;
    history[soon ? "replaceState" : "pushState"](null, "", address());
    state.pushed = fresh ? -9999 : performance.now();
  }
  async function restore() { // show the question and settings of the address
    const given = addressed(), question = given.get("question");
    let settings = { pipeline: "own" };
    try { if (given.has("settings")) settings = { ...settings, ...JSON.parse(given.get("settings")) }; } catch { say("The settings in the address cannot be read.", true); }
    Object.assign(state, { settings, otherName: given.get("other") || "" });
    if (!question) { home(); return; }
    fill("weights");
    await ask(question, false);
  }
  function home() {
    Object.assign(state, { question: "", view: null, other: null, base: null, selected: null, why: null, settings: { pipeline: "own" }, otherName: "" });
    at("main").hidden = true;
    at("question").value = "";
    showStart();
  }
  const first = addressed();
  if (first.has("token")) {
    keepToken(first.get("token"));
    history.replaceState(null, "", location.pathname);
  }
  const recentKey = () => `phasegraph-recent:${state.about.name}`;
  function recent() {
    try { return JSON.parse(localStorage.getItem(recentKey()) || "[]").filter((one) => typeof one === "string"); } catch { return []; }
  }
  function remember(question) {
    try { localStorage.setItem(recentKey(), JSON.stringify([question, ...recent().filter((one) => one !== question)].slice(0, 8))); } catch { /* without storage, the question is not remembered */ }
    fill("recent-list", recent().map((one) => h("option", { value: one })));
  }
  async function call(path, body) {
    const headers = token ? { Authorization: `Bearer ${token}` } : {};
    const options = body === undefined ? { headers }
      : { method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(body) };
    let response;
    try { response = await fetch(`api/${path}`, options); } catch { lost(); throw new Error("The server does not answer."); }
    at("lost").hidden = true;
    if (response.ok) return response;
    const said = await response.json().catch(() => ({ error: `the server answered ${response.status}` }));
    if (response.status === 401) { at("token-form").hidden = false; at("token").focus(); }
    throw new Error(said.error);
  }
  function lost() { // show the command that restarts the server on the port of this page
    const command = (state.about && state.about.command) || "phasegraph inspect FOLDER";
    at("command").textContent = visible(/ --port[ =]/.test(command) || !location.port ? command : `${command} --port ${location.port}`);
    at("lost").hidden = false;
  }
  const json = async (path, body) => (await call(path, body)).json();
  const told = (task) => task.catch((error) => say(error.message, true));

  function compared() { // the settings of the compared pipeline, with the same number of passages
    if (!state.otherName) return null;
    return { pipeline: state.otherName, ...(state.settings.k === undefined ? {} : { k: state.settings.k }) };
  }
  async function ask(question, push = true) {
    const round = ++state.round, fresh = question !== state.question || !state.view;
    if (fresh) say("Asking…");
    const other = compared(), plain = { pipeline: state.settings.pipeline };
    const known = state.base && state.base.question === question && state.base.pipeline === plain.pipeline ? state.base : null;
    const [view, beside, base] = await Promise.all([json("ask", { question, settings: state.settings }),
      other ? json("ask", { question, settings: other }) : null,
      edited() ? known || json("ask", { question, settings: plain }) : null]);
    if (round !== state.round) return; // a later request is running
    Object.assign(state, { question, view, other: beside, base: edited() ? base : view });
    if (fresh) {
      state.selected = null;
      state.open.clear();
      state.details.clear();
      fill("found"); fill("why");
      if (at("question").value !== question) {
        at("question").value = question;
        at("question").setSelectionRange(0, 0); // show the start of a long question, not its end
      }
      remember(question);
    }
    if (push) note(fresh);
    show(fresh);
    if (!fresh && state.why) await told(whyNot(state.why));
  }
  let waiting = 0;
  function decideAgain(push = true) { // decide again 60 ms after the last move of a slider
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      told(ask(state.question, push));
      if (state.flipped) told(flip());
    }, 60);
  }

  // Display.

  function show(fresh) {
    const key = document.activeElement && document.activeElement.dataset.key;
    at("main").hidden = false;
    at("start-card").hidden = true;
    say("");
    if (fresh || !at("weights").querySelector("input")) showSettings();
    followSettings();
    showSummary(); showAnswers(); showLists();
    if (state.tab === null && !narrow()) openTab("walk"); else showWalk();
    if (key) {
      const again = [...document.querySelectorAll("[data-key]")].find((one) => one.dataset.key === key);
      if (again) again.focus({ preventScroll: true });
    }
  }
  function showStart() {
    const about = state.about, listed = (title, questions, more) => (questions.length ? [h("h3", null, title),
      h("ul", null, questions.map((question) => h("li", null, h("button", { type: "button", class: "passage", on: { click: () => told(ask(question)) } }, h("bdi", null, question))))), more] : []);
    const offered = (judged) => about.questions.filter((one) => one.judged === judged).map((one) => one.text);
    const forget = h("button", { type: "button", class: "small", on: { click: () => { try { localStorage.removeItem(recentKey()); } catch { /* without storage, there is nothing to remove */ } showStart(); } } }, "Remove these questions");
    fill("starters", listed("Judged questions", offered(true)), listed("Generated from the passages", offered(false)), listed("Previous questions in this browser", recent(), forget));
    fill("recent-list", recent().map((one) => h("option", { value: one })));
    at("start-card").hidden = Boolean(state.view);
  }

  const rowOf = (id) => state.view.rows.find((row) => row.id === id) || (state.other && state.other.rows.find((row) => row.id === id));
  const texts = (id) => state.view.passages[id] || (state.other && state.other.passages[id]) || { title: "", text: "" };
  const labelOf = (id) => { const row = rowOf(id); return row ? row.label : texts(id).title || id; };
  const textOf = (id) => texts(id).text;
  const isGold = (id) => state.view.gold.some((hop) => hop.passages.includes(id));
  const star = (id) => (isGold(id) ? h("span", { class: "star", title: state.view.made ? "the question was made from this passage" : "judged as an answer to the question" }, "★ ", h("span", { class: "unseen" }, "gold: ")) : null);

  function passage(id, where) {
    const label = labelOf(id);
    return h("span", null, star(id),
      h("button", { type: "button", class: "passage", "aria-pressed": String(state.selected === id),
        data: { key: `${where}:${id}` }, on: { click: () => select(id) } }, h("bdi", null, label)),
      label === id ? null : [" ", h("span", { class: "id" }, h("bdi", null, id))]);
  }
  function select(id) { state.selected = state.selected === id ? null : id; show(false); }

  function showSummary() {
    const view = state.view, count = view.rows.filter((row) => row.position).length;
    const found = view.gold.filter((hop) => hop.found).length;
    at("gold").hidden = !view.gold.length;
    const own = view.gold.length === 1 ? `a passage ${found ? "of" : "outside"} this answer` : `${view.gold.length} passages, ${found} in this answer`;
    at("gold").textContent = view.gold.length ? `★ ${view.made ? `made from ${own}` : `gold ${found} of ${view.gold.length}`}` : "";
    at("gold").title = view.made ? "" : "passages that were judged as answers to the question, in this answer and in all";
    at("edited").hidden = !edited();
    at("edited").textContent = visible(`${nameOf(state.settings.pipeline)}, edited`);
    document.querySelector(".keys").hidden = !count;
    at("banner").hidden = !view.unlikely || !count;
    if (view.unlikely) {
      fill("banner", h("b", null, "Probably not in this collection"),
        `The confidence that these passages contain an answer is ${view.confidence.toFixed(2)}. They are only the nearest passages.`);
    }
    const facts = [h("span", null, h("b", null, count), ` of ${view.rows.length} candidates`)];
    if (view.confidence !== null) {
      facts.push(h("span", { title: view.confidence_said }, "confidence ",
        h("meter", { min: 0, max: 1, low: view.unlikely ? 1 : null, optimum: 1, value: view.confidence, "aria-label": "confidence" }), " ",
        h("b", null, view.confidence.toFixed(2))));
    }
    const fused = view.sources.filter((one) => one.weight !== null), parts = shares(fused.map((one) => one.weight));
    fill("summary", h("div", { class: "facts" }, facts, fused.length ? h("span", { class: "shares" }, "weights", fused.map((one, place) => h("span", null, dot(one.name), `${one.name} ${parts[place]} %`))) : null),
      view.warnings.map((line) => h("p", { class: "warn" }, `Warning: ${line}`)),
      count ? null : h("p", { class: "warn" }, `No passages: ${view.why_empty}.`));
  }

  function bars(rows, names) {
    const parts = (row, sign) => names.map((name) => [name, (row.sources[name] || {}).contribution || 0])
      .filter(([, value]) => value * sign > 0);
    const total = (row, sign) => parts(row, sign).reduce((sum, [, value]) => sum + Math.abs(value), 0);
    const most = Math.max(1e-12, ...rows.map((row) => total(row, 1))), least = Math.max(0, ...rows.map((row) => total(row, -1)));
    const width = most + least, zero = (100 * least) / width;
    return (row) => {
      const bar = h("div", { class: "bar", role: "img", "aria-label": names.map((name) =>
        `${name} ${signed((row.sources[name] || {}).contribution)}`).join(", ") });
      let left = zero;
      for (const [name, value] of parts(row, 1)) {
        bar.append(h("span", { title: `${name} ${signed(value)}`, style: { left: `${left}%`, width: `${(100 * value) / width}%`, background: colour(name) } }));
        left += (100 * value) / width;
      }
      left = zero;
      for (const [name, value] of parts(row, -1)) {
        left += (100 * value) / width;
        bar.append(h("span", { class: "minus", title: `${name} ${signed(value)}`, style: { left: `${left}%`, width: `${(-100 * value) / width}%`, background: colour(name) } }));
      }
      if (least) bar.append(h("span", { class: "zero", style: { left: `${zero}%` } }));
      return bar;
    };
  }

  function answers(view, against, where) {
    const rows = view.rows.filter((row) => row.position).sort((one, two) => one.position - two.position);
    const names = view.sources.filter((one) => one.weight !== null).map((one) => one.name);
    const bar = bars(rows, names);
    const before = against && new Map(against.rows.map((row) => [row.id, row.position]));
    const mark = (row) => {
      if (!before) return null;
      const was = before.get(row.id);
      if (!was) return h("span", { class: "move up" }, "▲ new");
      if (was === row.position) return null;
      return h("span", { class: `move ${was > row.position ? "up" : "down"}`, title: `was ${was}` }, `${was > row.position ? "▲" : "▼"} ${Math.abs(was - row.position)}`);
    };
    const listed = rows.map((row) => {
      const on = state.selected === row.id, key = `${where}:${row.id}`;
      const more = h("details", { class: "more", open: on || state.details.has(key) },
        h("summary", { data: { key: `more:${key}` } }, "Details"), detail(view, row, names));
      more.addEventListener("toggle", () => { if (more.open && !on) state.details.add(key); if (!more.open) state.details.delete(key); });
      return h("li", { class: [on ? "on" : "", isGold(row.id) ? "gold" : ""].join(" ").trim() || null },
        h("span", { class: "place" }, String(row.position), mark(row)),
        h("div", null, passage(row.id, where), h("p", { class: "why" }, row.why), h("p", { class: "text" }, h("bdi", null, textOf(row.id))), bar(row), more));
    });
    const ghosts = view.missed.map((one) => h("li", { class: "ghost" }, h("span", { class: "place star" }, "☆"), h("div", null,
      h("span", null, h("b", null, h("bdi", null, one.label)), " ", h("span", { class: "id" }, h("bdi", null, one.id)), " ", h("span", { class: "tag" }, "missed")),
      h("p", { class: "why" }, one.why), h("p", { class: "text" }, h("bdi", null, one.text)),
      h("button", { type: "button", class: "small", on: { click: () => { openTab("why"); told(whyNot(one.id)); } } }, "Why not?"))));
    return h("ol", { class: `answers${view.unlikely ? " unlikely" : ""}${before ? " moved" : ""}` }, listed, ghosts);
  }

  function detail(view, row, names) {
    const lines = names.map((name) => {
      const one = row.sources[name] || {};
      const weight = view.sources.find((source) => source.name === name).weight;
      return h("tr", null, h("td", { class: "l" }, dot(name), name), h("td", { title: one.rank === null ? "not returned" : null }, one.rank === null ? "–" : number(one.rank)),
        h("td", null, number(one.raw), h("small", null, number(one.calibrated))), h("td", null, weight.toFixed(3)), h("td", null, signed(one.contribution)));
    });
    const further = row.bonus || row.prior !== 1 ? ` Bonus ${signed(row.bonus)}, priors multiply by ${number(row.prior)}.` : "";
    return h("div", { class: "scroll" }, h("p", { class: "hint" }, `Score ${row.score === null ? "–" : row.score.toFixed(4)}, from the fused value ${number(row.fused)} (rule ${view.settings.rule}).${further} raw: the source's own score; calibrated: this score on the scale that all sources share; contribution: the source's part of the fused value.`),
      h("table", null, head("source", "rank", ["raw", h("br"), "calibrated"], "weight", "contribution"), h("tbody", null, lines)));
  }
  const head = (first, ...names) => h("thead", null, h("tr", null, h("th", { class: "l" }, first), names.map((name) => h("th", null, name))));

  function showAnswers() {
    if (!state.other) {
      fill("answers", edited() && state.base ? h("p", { class: "hint" }, `▲ ▼: rank change from ${state.settings.pipeline === "own" ? "the pipeline as opened" : nameOf(state.settings.pipeline)}`) : null,
        answers(state.view, edited() ? state.base : null, "answer"));
      return;
    }
    const gone = (one, two) => one.rows.filter((row) => row.position && !two.rows.some((other) => other.id === row.id && other.position)).length;
    const named = (view) => `${nameOf(view.pipeline)}, rule ${view.settings.rule}`;
    fill("answers", h("p", { class: "hint" }, `Passages only in the shown answer: ${gone(state.view, state.other)}; only in the compared answer: ${gone(state.other, state.view)}. ▲ ▼: rank change from the other answer.`),
      h("div", { class: "columns" },
        h("div", null, h("h3", null, `Shown: ${named(state.view)}${edited() ? ", edited" : ""}`), answers(state.view, state.other, "answer")),
        h("div", null, h("h3", null, `Compared: ${named(state.other)}`), answers({ ...state.other, missed: [] }, state.view, "other"))));
  }

  function showLists() {
    const view = state.view, rows = new Map(view.rows.map((row) => [row.id, row]));
    const share = new Map(view.agreement.map(([one, two, part]) => [`${one}\u0000${two}`, part]));
    const agreed = view.agreement.filter(([one, two]) => one < two)
      .map(([one, two, part]) => `${one} and ${two} ${percent(part)} / ${percent(share.get(`${two}\u0000${one}`))}`);
    at("weights-why").textContent = visible(`Weights: ${view.why_weights}.${agreed.length
      ? ` Agreement (share of a source's first 10 in the first 50 of another source, in both directions): ${agreed.join("; ")}.` : ""}`);
    at("lists-said").textContent = visible(view.sources.map((one) => `${one.name} ${one.hits}`).join(" · "));
    fill("lists", view.sources.map((source) => {
      const all = state.open.has(source.name), shown = all ? source.ids : source.ids.slice(0, 10);
      const said = [source.status, source.reason, `${source.hits} hits`, source.weight === null ? "not fused" : `weight ${source.weight.toFixed(3)}`,
        source.calibration && `calibrated: ${source.calibration}`, `${Math.round(source.milliseconds)} ms`].filter(Boolean).join(" · ");
      const body = shown.map((id) => {
        const row = rows.get(id), one = row.sources[source.name];
        const tag = row.position ? h("span", { class: "tag" }, `#${row.position}`)
          : h("span", { class: "tag no" }, row.verdict === "accepted" ? `below #${view.settings.k}` : row.verdict);
        return h("tr", { class: [row.verdict === "rejected" ? "rejected" : row.position ? "" : "out", state.selected === id ? "on" : ""].join(" ") },
          h("td", null, number(one.rank)), h("td", { class: "l" }, passage(id, source.name), " ", tag),
          h("td", null, number(one.raw), h("small", null, number(one.calibrated))), h("td", null, signed(one.contribution)));
      });
      const more = source.ids.length > 10 ? h("button", { type: "button", class: "small", "aria-expanded": String(all), data: { key: `more:${source.name}` },
        on: { click: () => { if (all) state.open.delete(source.name); else state.open.add(source.name); show(false); } } },
        all ? "First 10" : `All ${source.ids.length}`) : null;
      return h("section", { "aria-label": source.name }, h("h3", null, dot(source.name), source.name), h("p", { class: "hint" }, said),
        source.notes.map((line) => h("p", { class: "hint" }, line)),
        shown.length ? h("div", { class: "scroll" }, h("table", null, h("thead", null, h("tr", null, h("th", null, "rank"), h("th", { class: "l" }, "passage"),
          h("th", null, "raw", h("br"), "calibrated"), h("th", null, "contributes"))), h("tbody", null, body))) : null, more);
    }));
  }

  // The walk.

  function showWalk() {
    if (state.tab !== "walk" || !state.view) return;
    const rows = state.view.rows.filter((row) => row.walk && row.walk.path.length && (row.position || row.id === state.selected))
      .sort((one, two) => (one.position || 99) - (two.position || 99)).slice(0, 25);
    for (const id of ["walk", "whole-label"]) at(id).hidden = !rows.length;
    if (!rows.length) { at("walk-hint").textContent = "The walk reached no passage of this answer."; fill("paths"); return; }
    const picked = rows.find((row) => row.id === state.selected);
    const chosen = picked || rows.find((row) => row.walk.path.length > 2) || rows[0], whole = at("whole").checked;
    at("walk-hint").textContent = "From a start of the walk (thick border) to the passage, along the edges with the largest contribution. Rectangles are passages, rounded shapes are names. Choose a passage to see its path.";
    fill("paths", rows.map((row) => h("li", { class: row === chosen && "on" }, row.position ? `${row.position}. ` : "", passage(row.id, "path"),
      h("div", { class: "steps" }, row.walk.path.flatMap(([kind], place) => {
        const label = h("bdi", null, row.walk.labels[place]);
        return [place ? ` —${row.walk.relations[place - 1] || ""}→ ` : "", kind === "passage" ? h("b", null, label) : label];
      }), row.walk.words.length ? ` · words of the question: ${row.walk.words.join(", ")}` : ""))));
    const nodes = new Map(), edges = new Map(), key = ([kind, name]) => `${kind}\u0000${name}`;
    const names = new Map(), short = (id) => { if (!names.has(id)) names.set(id, `n${names.size}`); return names.get(id); };
    for (const row of whole ? rows : [chosen]) {
      const seeds = new Set(row.walk.seeds.map(key));
      row.walk.path.forEach((step, place) => {
        const id = short(key(step)), on = !picked || row === picked;
        const node = nodes.get(id) || { id, kind: step[0], name: step[1], seed: false, on: false, goal: false, label: "" };
        const label = visible(row.walk.labels[place]);
        node.label = label.length > 34 ? `${label.slice(0, 33)}…` : label;
        node.seed = node.seed || seeds.has(key(step));
        node.on = node.on || on;
        node.goal = node.goal || (step[0] === "passage" && step[1] === row.id);
        nodes.set(id, node);
        if (place) {
          const before = short(key(row.walk.path[place - 1])), edge = `${before}-${id}`;
          edges.set(edge, { id: edge, source: before, target: id, label: visible(row.walk.relations[place - 1] || ""), on: on || (edges.get(edge) || {}).on });
        }
      });
    }
    draw([...nodes.values()], [...edges.values()]);
  }

  function layers(nodes, edges) { // the layer of a node is its largest distance from the start of a path; nodes of a layer are side by side
    const depth = new Map(nodes.map((one) => [one.id, 0]));
    for (let round = 0; round < 12; round += 1) {
      for (const edge of edges) {
        const next = depth.get(edge.source) + 1;
        if (next > depth.get(edge.target) && next < 12) depth.set(edge.target, next);
      }
    }
    const rows = new Map();
    return new Map(nodes.map((one) => {
      const layer = depth.get(one.id), row = rows.get(layer) || 0;
      rows.set(layer, row + 1);
      return [one.id, { layer, row }];
    }));
  }

  function draw(nodes, edges) {
    const css = getComputedStyle(document.documentElement), ink = (name) => css.getPropertyValue(name).trim();
    const flag = (one) => [one.on ? "on" : "off", one.seed && "seed", one.goal && "goal", one.kind].filter(Boolean).join(" ");
    const box = at("walk"), placed = layers(nodes, edges);
    const count = (layer) => [...placed.values()].filter((one) => one.layer === layer).length;
    const deep = Math.max(...[...placed.values()].map((one) => one.layer)) + 1;
    const where = (id) => {
      const { layer, row } = placed.get(id);
      return { x: (row - (count(layer) - 1) / 2) * 168, y: layer * 82 };
    };
    box.style.height = `${Math.min(narrow() ? 260 : 460, Math.max(90, deep * 82 + 12))}px`;
    if (state.graph) state.graph.destroy();
    state.graph = cytoscape({
      container: box, userZoomingEnabled: false, boxSelectionEnabled: false, autoungrabify: true,
      elements: [...nodes.map((one) => ({ data: one, classes: flag(one) })), ...edges.map((one) => ({ data: one, classes: one.on ? "on" : "off" }))],
      layout: { name: "preset", positions: (node) => where(node.id()), fit: false },
      style: [
        { selector: "node", style: { label: "data(label)", color: ink("--ink"), "font-size": 11.5, "text-valign": "center", "text-halign": "center", "text-wrap": "wrap", "text-max-width": 146,
          width: 158, height: 42, "background-color": ink("--paper"), "border-width": 1, "border-color": ink("--soft") } },
        { selector: "node.entity", style: { shape: "round-rectangle", "corner-radius": 19 } },
        { selector: "node.passage", style: { shape: "rectangle" } },
        { selector: "node.goal", style: { "background-color": ink("--mark") } },
        { selector: "node.seed", style: { "border-width": 3, "border-color": colour("graph") } },
        { selector: "edge", style: { width: 1.6, "line-color": ink("--soft"), "target-arrow-color": ink("--soft"), "target-arrow-shape": "triangle", "curve-style": "bezier", "arrow-scale": 0.8,
          label: "data(label)", color: ink("--soft"), "font-size": 11, "text-background-color": ink("--card"), "text-background-opacity": 0.9, "text-background-padding": 1 } },
        { selector: "edge.on", style: { "line-color": colour("graph"), "target-arrow-color": colour("graph") } },
        { selector: ".off", style: { opacity: 0.22 } },
      ],
    });
    const graph = state.graph, held = graph.elements().boundingBox();
    graph.zoom(Math.min(1.1, Math.max(0.6, Math.min((box.clientWidth - 24) / held.w, (box.clientHeight - 24) / held.h))));
    graph.center();
    const seen = graph.elements().renderedBoundingBox(); // show the start of a graph that does not fit; the user can move it
    graph.panBy({ x: seen.w > box.clientWidth ? 12 - seen.x1 : 0, y: seen.h > box.clientHeight ? 12 - seen.y1 : 0 });
    graph.on("tap", "node.passage", (event) => { if (state.view.passages[event.target.data("name")]) select(event.target.data("name")); });
  }

  // Tabs: on a narrow screen, the open tab covers the answers, and its button closes it.

  const TABS = { walk: "walk-card", settings: "settings-card", why: "why-card", flips: "flips-card" };
  function openTab(name) {
    state.tab = name;
    for (const [tab, card] of Object.entries(TABS)) {
      at(card).hidden = tab !== name;
      at(`tab-${tab}`).setAttribute("aria-selected", String(tab === name));
      at(`tab-${tab}`).tabIndex = tab === (name || "walk") ? 0 : -1;
    }
    showWalk();
  }
  for (const tab of Object.keys(TABS)) {
    at(`tab-${tab}`).addEventListener("click", () => openTab(state.tab === tab && narrow() ? "" : tab));
    at(`tab-${tab}`).addEventListener("keydown", (event) => {
      const shown = Object.keys(TABS).filter((one) => !at(`tab-${one}`).hidden), step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = shown[(shown.indexOf(tab) + step + shown.length) % shown.length];
      openTab(next);
      at(`tab-${next}`).focus();
    });
  }

  // Settings.

  const nameOf = (name) => (name === "own" ? "as opened" : name === "compared" ? "--compare" : name);
  function options(id, names, chosen) {
    const now = (name) => (!name ? "nothing" : id === "pipeline" && name === chosen && edited() ? `${nameOf(name)}, edited` : nameOf(name));
    fill(id, names.map((name) => h("option", { value: name, selected: name === chosen }, now(name))));
  }
  function slider(id, name, least, most, value, move, mark) {
    const input = h("input", { type: "range", id, min: least, max: most, step: (most - least) / 200 || 1, disabled: Boolean(offline) });
    input.value = value;
    input.addEventListener("input", () => move(Number(input.value)));
    return h("div", { class: "slide" }, h("label", { for: id, title: name }, mark, name), input, h("output", { id: `${id}-said`, for: id }));
  }
  function showSettings() {
    const view = state.view, base = view.settings;
    options("other", ["", ...Object.keys(state.about.pipelines)], state.otherName);
    const names = state.about.sources.map((one) => one.name);
    fill("weights", h("legend", null, "Weights in percent"), names.map((name, place) => slider(`weight-${place}`, name, 0, 100, 0, (value) => {
      const now = names.map((_, row) => (row === place ? 0 : Number(at(`weight-${row}`).value))), rest = now.reduce((sum, one) => sum + one, 0);
      const next = shares(now.map((one, row) => (row === place ? value : rest ? (one * (100 - value)) / rest : (100 - value) / (names.length - 1 || 1))));
      next.forEach((one, row) => { at(`weight-${row}`).value = one; });
      state.settings.weights = Object.fromEntries(names.map((one, row) => [one, next[row] / 100]));
      decideAgain();
    }, dot(name))));
    const put = (key, value) => { state.settings[key] = value; decideAgain(); };
    const scores = (name) => view.rows.map((row) => (row.sources[name] || {}).score).filter((one) => one !== null && one !== undefined);
    fill("thresholds", h("legend", null, "Thresholds: lower values are rejected"),
      names.map((name, place) => {
        const all = scores(name);
        if (!all.length) return null;
        const low = Math.min(...all), high = Math.max(...all), off = low - (high - low) / 100;
        const now = base.thresholds[name];
        return slider(`least-${place}`, name, off, high, now === undefined || now === null ? off : now, (value) => {
          const next = { ...(state.settings.thresholds || base.thresholds) };
          if (value <= low - (high - low) / 200) delete next[name]; else next[name] = value;
          put("thresholds", next);
        }, dot(name));
      }),
      slider("final", "score", 0, 1, base.final || 0, (value) => put("final", value || null)),
      slider("common", "calibrated", -4, 8, base.common === null ? -4 : base.common, (value) => put("common", value <= -4 ? null : value)),
      slider("confidence", "confidence", 0, 1, base.confidence || 0, (value) => put("confidence", value || null)));
  }
  function followSettings() { // show the values that the server used beside the sliders
    const view = state.view, now = view.settings;
    options("pipeline", Object.keys(state.about.pipelines), state.settings.pipeline);
    const weightOf = (name) => (now.weights ? now.weights[name] : (view.sources.find((one) => one.name === name) || {}).weight) || 0;
    const parts = shares(state.about.sources.map(({ name }) => weightOf(name)));
    state.about.sources.forEach(({ name }, place) => {
      at(`weight-${place}`).value = parts[place];
      at(`weight-${place}-said`).textContent = `${parts[place]} %`;
      const least = at(`least-${place}-said`), value = now.thresholds[name];
      if (least) least.textContent = value === undefined || value === null ? "off" : `≥ ${number(value, 2)}`;
    });
    for (const key of ["final", "common", "confidence"]) at(`${key}-said`).textContent = now[key] === null ? "off" : `≥ ${now[key].toFixed(2)}`;
    at("k").value = now.k;
    at("reset").disabled = Boolean(offline) || !edited();
  }

  // Why not this passage?

  async function look(needle) {
    const found = offline ? within(needle) : await json("find", { needle });
    fill("why");
    state.why = null;
    if (!found.length) { fill("found", h("p", { class: "hint" }, "No passage matches.")); return; }
    if (found.length === 1) { fill("found"); await whyNot(found[0].id); return; }
    fill("found", h("p", { class: "hint" }, `${found.length} passages contain this text:`), h("ul", null, found.map((one) => h("li", null,
      h("button", { type: "button", class: "passage", on: { click: () => told(whyNot(one.id)) } }, h("bdi", null, one.label)), " ",
      h("span", { class: "id" }, h("bdi", null, one.id))))));
  }
  function within(needle) {
    const low = needle.trim().toLowerCase();
    return Object.entries(state.view.passages).map(([id, one]) => ({ id, label: labelOf(id), ...one }))
      .filter((one) => [one.id, one.title, one.text].some((text) => text.toLowerCase().includes(low))).slice(0, 20);
  }
  async function whyNot(id) {
    if (offline) { whyOffline(id); return; }
    const one = await json("why-not", { question: state.question, settings: state.settings, id });
    state.why = id;
    const lines = Object.entries(one.sources).map(([name, said]) => h("tr", null, h("td", { class: "l" }, dot(name), name),
      h("td", null, said.rank === null ? "–" : `${said.rank} of ${said.of}`), h("td", null, number(said.score)), h("td", { class: "l" }, said.said)));
    fill("why", h("h3", null, h("bdi", null, one.label)), h("p", { class: "text" }, h("bdi", null, one.text)),
      one.said.map((line) => h("p", null, line)),
      h("div", { class: "scroll" }, h("table", null, h("thead", null, h("tr", null, ["source", "rank", "score", ""].map((name, place) => h("th", { class: place % 3 ? null : "l" }, name)))), h("tbody", null, lines))),
      one.words.length + one.lacking.length === 0 ? null : h("p", null, "Words of the question in the passage: ", one.words.length ? one.words.map((word) => h("span", { class: "tag word" }, word)) : "none",
        one.lacking.length ? [h("br"), "Missing words: ", one.lacking.map((word) => h("span", { class: "tag no word" }, word))] : null),
      one.walk.length ? h("p", { class: "steps" }, "Path of the walk: ", one.walk.join(" → ")) : null);
  }
  function whyOffline(id) {
    const row = state.view.rows.find((one) => one.id === id);
    const names = state.view.sources.filter((one) => one.weight !== null).map((one) => one.name);
    fill("why", h("h3", null, h("bdi", null, labelOf(id))), h("p", { class: "text" }, h("bdi", null, textOf(id))),
      h("p", null, row.position ? `The passage is in the answer, at rank ${row.position}.` : `The passage is not in the answer: ${row.verdict === "accepted" ? "k other passages rank higher" : row.verdict}.`),
      h("p", null, row.why), row.fused === null ? null : detail(state.view, row, names));
  }

  // Judged questions.

  async function flip() {
    const found = await json("flips", { settings: state.settings, before: { pipeline: "own" } });
    state.flipped = true;
    const listed = (rows, kind, sign) => (rows.length ? [h("h3", { class: kind }, `${sign} ${rows.length} questions`), h("ul", null, rows.map((row) => h("li", null,
      h("button", { type: "button", class: "passage", on: { click: () => told(ask(row.question)) } }, h("bdi", null, row.question)), " ",
      h("span", { class: "id" }, row.passages.map((one) => one.title || one.id).join(", ")))))] : []);
    fill("flips", h("p", null, `Of ${found.gold} gold passages of ${found.questions} questions, ${found.found} are among the first ${found.k} now, `,
      `${found.found_before} among the first ${found.k_before} as opened.`),
      listed(found.gained, "gain", "Gain in"), listed(found.lost, "loss", "Loss in"),
      found.gained.length + found.lost.length ? null : h("p", { class: "hint" }, "No question gains or loses a gold passage."));
  }

  async function save(path, body, name) {
    const blob = await (await call(path, body)).blob(), link = h("a", { download: name });
    link.href = URL.createObjectURL(blob);
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    say(`Saved ${name}.`);
  }

  // Event handlers.

  at("ask").addEventListener("submit", (event) => { event.preventDefault(); state.why = null; told(ask(at("question").value.trim())); });
  at("find").addEventListener("submit", (event) => { event.preventDefault(); told(look(at("needle").value)); });
  at("token-form").addEventListener("submit", (event) => { event.preventDefault(); keepToken(at("token").value); at("token").value = ""; told(start()); });
  at("again").addEventListener("click", () => told(state.about ? restore() : start()));
  at("pipeline").addEventListener("change", () => { state.settings = { pipeline: at("pipeline").value }; decideAgain(); });
  at("other").addEventListener("change", () => { state.otherName = at("other").value; decideAgain(); });
  at("k").addEventListener("change", () => { state.settings.k = Number(at("k").value); decideAgain(); });
  at("reset").addEventListener("click", () => { state.settings = { pipeline: at("pipeline").value }; fill("weights"); decideAgain(); });
  at("flip").addEventListener("click", () => told(flip()));
  at("whole").addEventListener("change", showWalk);
  at("save-pipeline").addEventListener("click", () => told(save("pipeline", { settings: state.settings }, "pipeline.json")));
  at("save-page").addEventListener("click", () => told(save("export",
    { question: state.question, settings: state.settings, other: compared() }, "answer.html")));
  at("skip").addEventListener("click", (event) => { // the link must not replace the question after #
    event.preventDefault();
    const to = state.view ? at("answer-card") : at("question");
    to.focus();
    to.scrollIntoView({ block: "start" });
  });
  at("home").addEventListener("click", (event) => {
    event.preventDefault();
    if (offline) return;
    history.pushState(null, "", location.pathname);
    home();
  });
  addEventListener("popstate", () => { if (!offline && state.about && !addressed().has("token")) told(restore()); });
  document.addEventListener("keydown", (event) => {
    if (/INPUT|SELECT|TEXTAREA/.test(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") { event.preventDefault(); at("question").focus(); at("question").select(); }
    const step = { j: 1, k: -1 }[event.key];
    if (!step || !state.view) return;
    const ids = state.view.rows.filter((row) => row.position).sort((one, two) => one.position - two.position).map((row) => row.id);
    const next = ids[Math.max(0, Math.min(ids.length - 1, ids.indexOf(state.selected) + (state.selected === null && step < 0 ? 0 : step)))];
    if (!next || next === state.selected) return;
    select(next);
    const button = [...document.querySelectorAll("#answers [data-key]")].find((one) => one.dataset.key === `answer:${next}`);
    if (button) { button.focus({ preventScroll: true }); button.closest("li").scrollIntoView({ block: "nearest" }); }
  });

  async function start() {
    state.about = offline ? offline.about : await json("about");
    at("token-form").hidden = true;
    const about = state.about;
    at("about").textContent = visible(`${about.name} · ${about.size}`);
    say(about.no_vectors ? "Passages are found by names and words only: --embedder MODULE:OBJECT also uses the embeddings of the index." : "");
    at("flips-hint").textContent = about.judged ? `${about.judged} judged questions, each answered with the current settings and with the pipeline as opened.` : "";
    at("tab-flips").hidden = !about.judged || Boolean(offline);
    if (offline) return;
    if (addressed().get("question") && !addressed().has("token")) await restore();
    else if (first.get("question") && !state.view) await ask(first.get("question"));
    else showStart();
  }
  if (offline) {
    start();
    Object.assign(state, { view: offline.view, other: offline.other, base: offline.view, question: offline.view.question });
    state.settings.pipeline = offline.view.pipeline;
    state.otherName = offline.other ? offline.other.pipeline : "";
    at("ask").hidden = true;
    show(true);
    for (const one of at("settings-card").querySelectorAll("input,select,button")) one.disabled = true;
    at("settings-card").querySelector(".hint").textContent = "This page is saved: its settings are shown and cannot be changed.";
    at("about").before(h("h2", { id: "asked" }, state.question));
  } else told(start());
})();
