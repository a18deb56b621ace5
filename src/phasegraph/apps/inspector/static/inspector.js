// The inspector's page. Text of others is only ever set as text: no markup is made of it.
"use strict";
(() => {
  const held = document.getElementById("data");
  const offline = held ? JSON.parse(held.textContent) : null;
  const at = (id) => document.getElementById(id);
  const state = {
    about: null, question: "", view: null, other: null, otherName: "", selected: null, open: new Set(),
    settings: { pipeline: "own" }, flipped: false, graph: null, round: 0,
  };

  // Characters that are not seen, or turn the direction of others, are named.
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
  const colour = (name) => (state.about.sources.find((one) => one.name === name) || { colour: "#6f6f6f" }).colour;
  const dot = (name) => h("span", { class: "dot", style: { background: colour(name) } });

  // Asking the server: its own, and no other.

  let token = null;
  try { token = sessionStorage.getItem("phasegraph-token"); } catch { token = null; }
  function keepToken(value) {
    token = value;
    try { sessionStorage.setItem("phasegraph-token", value); } catch { /* kept for this page alone */ }
  }
  const given = new Map([...location.hash.matchAll(/[#&](token|question)=([^&]*)/g)].map(([, name, text]) => {
    let said = text;
    try { said = decodeURIComponent(said); } catch { /* it stands there as it is */ }
    return [name, said];
  }));
  if (given.has("token")) {
    keepToken(given.get("token"));
    history.replaceState(null, "", location.pathname);
  }
  async function call(path, body) {
    const headers = token ? { Authorization: `Bearer ${token}` } : {};
    const options = body === undefined ? { headers }
      : { method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(body) };
    const response = await fetch(`api/${path}`, options);
    if (response.ok) return response;
    const said = await response.json().catch(() => ({ error: `the server answered ${response.status}` }));
    if (response.status === 401) { at("token-form").hidden = false; at("token").focus(); }
    throw new Error(said.error);
  }
  const json = async (path, body) => (await call(path, body)).json();
  const told = (task) => task.catch((error) => say(error.message, true));

  function compared() { // another pipeline, and as many passages of it
    if (!state.otherName) return null;
    return { pipeline: state.otherName, ...(state.settings.k === undefined ? {} : { k: state.settings.k }) };
  }
  async function ask(question) {
    const round = ++state.round, fresh = question !== state.question;
    if (fresh) say("Asking…");
    const other = compared();
    const [view, beside] = await Promise.all([
      json("ask", { question, settings: state.settings }), other ? json("ask", { question, settings: other }) : null]);
    if (round !== state.round) return; // a later one is under way
    Object.assign(state, { question, view, other: beside });
    if (fresh) {
      state.selected = null;
      state.open.clear();
      fill("found"); fill("why");
      at("question").value = question;
    }
    show(fresh);
    if (!fresh && state.why) await told(whyNot(state.why));
  }
  let waiting = 0;
  function decideAgain() { // while a slider moves, once in a while
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      told(ask(state.question));
      if (state.flipped) told(flip());
    }, 60);
  }

  // What is seen.

  function show(fresh) {
    const key = document.activeElement && document.activeElement.dataset.key;
    at("main").hidden = false;
    at("start-card").hidden = true;
    say("");
    if (fresh || !at("weights").querySelector("input")) showSettings();
    followSettings();
    showSummary(); showAnswers(); showLists(); showWalk(fresh);
    if (key) {
      const again = [...document.querySelectorAll("[data-key]")].find((one) => one.dataset.key === key);
      if (again) again.focus({ preventScroll: true });
    }
  }

  const titleOf = (id) => (state.view.passages[id] || (state.other && state.other.passages[id]) || { title: "" }).title || id;
  const textOf = (id) => (state.view.passages[id] || (state.other && state.other.passages[id]) || { text: "" }).text;

  function passage(id, where) {
    const title = titleOf(id);
    return h("span", null,
      h("button", { type: "button", class: "passage", "aria-pressed": String(state.selected === id),
        data: { key: `${where}:${id}` }, on: { click: () => select(id) } }, h("bdi", null, title)),
      title === id ? null : [" ", h("span", { class: "id" }, h("bdi", null, id))]);
  }
  function select(id) { state.selected = state.selected === id ? null : id; show(false); }

  function showSummary() {
    const view = state.view, count = view.rows.filter((row) => row.position).length;
    const facts = [h("span", null, h("b", null, count), ` of ${view.rows.length} candidates`)];
    if (view.confidence !== null) {
      facts.push(h("span", { title: view.confidence_said }, "confidence ",
        h("meter", { min: 0, max: 1, value: view.confidence, "aria-label": "confidence" }), " ",
        h("b", null, view.confidence.toFixed(2))));
    }
    facts.push(h("span", null, "rule ", h("b", null, view.settings.rule)));
    const fused = view.sources.filter((one) => one.weight !== null);
    fill("summary", h("div", { class: "facts" }, facts),
      view.warnings.map((line) => h("p", { class: "warn" }, `Warning: ${line}`)),
      count ? null : h("p", { class: "warn" }, `No passage: ${view.why_empty}.`),
      h("div", { class: "legend" }, fused.map((one) => h("span", null, dot(one.name), `${one.name} × ${one.weight.toFixed(3)}`)),
        h("span", null, "faded: takes away")));
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
    return h("ol", { class: "answers" }, rows.map((row) => {
      const was = before && before.get(row.id);
      const moved = !before ? null : !was ? h("span", { class: "move up" }, "new")
        : was > row.position ? h("span", { class: "move up" }, `▲ ${was - row.position}`)
        : was < row.position ? h("span", { class: "move down" }, `▼ ${row.position - was}`) : null;
      const on = state.selected === row.id;
      return h("li", { class: on && "on" },
        h("span", { class: "place" }, String(row.position), moved),
        h("div", null, passage(row.id, where), h("p", { class: "text" }, h("bdi", null, textOf(row.id))), bar(row)),
        h("span", { class: "score" }, row.score.toFixed(4), h("small", { title: "the rule's value" }, number(row.fused))),
        on ? detail(view, row, names) : null);
    }));
  }

  function detail(view, row, names) {
    const lines = names.map((name) => {
      const one = row.sources[name] || {};
      const weight = view.sources.find((source) => source.name === name).weight;
      return h("tr", null, h("td", { class: "l" }, dot(name), name), h("td", { title: one.rank === null ? "not returned" : null }, one.rank === null ? "–" : number(one.rank)),
        h("td", null, number(one.raw), h("small", null, number(one.calibrated))), h("td", null, weight.toFixed(3)), h("td", null, signed(one.contribution)));
    });
    const further = row.bonus || row.prior !== 1 ? h("p", { class: "hint" }, `Bonus ${signed(row.bonus)}, priors multiply by ${number(row.prior)}.`) : null;
    return h("div", { class: "scroll detail" }, h("table", null, head("source", "rank", ["raw", h("br"), "calibrated"], "weight", "contribution"), h("tbody", null, lines)), further);
  }
  const head = (first, ...names) => h("thead", null, h("tr", null, h("th", { class: "l" }, first), names.map((name) => h("th", null, name))));

  function showAnswers() {
    if (!state.other) { fill("answers", answers(state.view, null, "answer")); return; }
    const gone = (one, two) => one.rows.filter((row) => row.position && !two.rows.some((other) => other.id === row.id && other.position)).length;
    const named = (view) => `${nameOf(view.pipeline)}, rule ${view.settings.rule}`;
    fill("answers", h("p", { class: "hint" }, `Only in the one shown: ${gone(state.view, state.other)}; only in the other: ${gone(state.other, state.view)}. Arrows: against the other.`),
      h("div", { class: "columns" },
        h("div", null, h("h3", null, `Shown: ${named(state.view)}`), answers(state.view, state.other, "answer")),
        h("div", null, h("h3", null, `Compared: ${named(state.other)}`), answers(state.other, state.view, "other"))));
  }

  function showLists() {
    const view = state.view, rows = new Map(view.rows.map((row) => [row.id, row]));
    const share = new Map(view.agreement.map(([one, two, part]) => [`${one}\u0000${two}`, part]));
    const agreed = view.agreement.filter(([one, two]) => one < two)
      .map(([one, two, part]) => `${one} and ${two} ${percent(part)} / ${percent(share.get(`${two}\u0000${one}`))}`);
    at("weights-why").textContent = visible(`Weights: ${view.why_weights}.${agreed.length
      ? ` Agreement (share of the one's first 10 in the other's first 50, and the other way): ${agreed.join("; ")}.` : ""}`);
    fill("lists", view.sources.map((source) => {
      const all = state.open.has(source.name), shown = all ? source.ids : source.ids.slice(0, 10);
      const said = [source.status, source.reason, `${source.hits} hits`, source.weight === null ? "not fused" : `weight ${source.weight.toFixed(3)}`,
        source.calibration && `calibrated: ${source.calibration}`, `${Math.round(source.milliseconds)} ms`].filter(Boolean).join(" · ");
      const body = shown.map((id) => {
        const row = rows.get(id), one = row.sources[source.name];
        const tag = row.position ? h("span", { class: "tag" }, `#${row.position}`)
          : h("span", { class: "tag no" }, row.verdict === "accepted" ? "below k" : row.verdict);
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

  function showWalk(fresh) {
    const rows = state.view.rows.filter((row) => row.walk && row.walk.path.length && (row.position || row.id === state.selected))
      .sort((one, two) => (one.position || 99) - (two.position || 99)).slice(0, 25);
    at("walk-card").hidden = !rows.length;
    if (!rows.length) return;
    const chosen = rows.find((row) => row.id === state.selected);
    at("walk-hint").textContent = "To each passage of the answer, from where the walk restarts (ringed), the edges that brought the most. Boxes are passages, round ones names. Choose a passage to see its path alone.";
    fill("paths", rows.map((row) => h("li", { class: row === chosen && "on" }, row.position ? `${row.position}. ` : "", passage(row.id, "path"),
      h("div", { class: "steps" }, row.walk.path.flatMap(([kind, name], place) =>
        [place ? " → " : "", kind === "passage" ? h("b", null, h("bdi", null, titleOf(name))) : h("bdi", null, name)]),
        row.walk.words.length ? ` · has ${row.walk.words.join(", ")}` : ""))));
    const nodes = new Map(), edges = new Map(), key = ([kind, name]) => `${kind}\u0000${name}`;
    const names = new Map(), short = (id) => { if (!names.has(id)) names.set(id, `n${names.size}`); return names.get(id); };
    for (const row of rows) {
      const seeds = new Set(row.walk.seeds.map(key));
      row.walk.path.forEach((step, place) => {
        const id = short(key(step)), on = !chosen || row === chosen;
        const node = nodes.get(id) || { id, kind: step[0], name: step[1], seed: false, on: false, goal: false, label: "" };
        const label = visible(step[0] === "passage" ? titleOf(step[1]) : step[1]);
        node.label = label.length > 30 ? `${label.slice(0, 29)}…` : label;
        node.seed = node.seed || seeds.has(key(step));
        node.on = node.on || on;
        node.goal = node.goal || (step[0] === "passage" && step[1] === row.id);
        nodes.set(id, node);
        if (place) {
          const before = short(key(row.walk.path[place - 1])), edge = `${before}-${id}`;
          edges.set(edge, { id: edge, source: before, target: id, on: on || (edges.get(edge) || {}).on });
        }
      });
    }
    draw([...nodes.values()], [...edges.values()], fresh);
  }

  function layers(nodes, edges) { // each node as far from the start of a path as it ever is; those of a layer side by side
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
    const box = at("walk"), upright = box.clientWidth < 640, placed = layers(nodes, edges);
    const count = (layer) => [...placed.values()].filter((one) => one.layer === layer).length;
    const most = Math.max(...[...placed.values()].map((one) => one.row)) + 1, deep = Math.max(...[...placed.values()].map((one) => one.layer)) + 1;
    const where = (id) => {
      const { layer, row } = placed.get(id), side = row - (count(layer) - 1) / 2;
      return upright ? { x: side * 116, y: layer * 66 } : { x: layer * 134, y: side * 52 };
    };
    box.style.height = `${Math.min(520, Math.max(150, (upright ? deep * 66 : most * 52) + 40))}px`;
    if (state.graph) state.graph.destroy();
    state.graph = cytoscape({
      container: box, userZoomingEnabled: false, boxSelectionEnabled: false, autoungrabify: true,
      elements: [...nodes.map((one) => ({ data: one, classes: flag(one) })), ...edges.map((one) => ({ data: one, classes: one.on ? "on" : "off" }))],
      layout: { name: "preset", positions: (node) => where(node.id()), fit: false },
      style: [
        { selector: "node", style: { label: "data(label)", color: ink("--ink"), "font-size": 11.5, "text-valign": "center", "text-halign": "center", "text-wrap": "wrap", "text-max-width": 98,
          width: 108, height: 42, "background-color": ink("--paper"), "border-width": 1, "border-color": ink("--soft") } },
        { selector: "node.entity", style: { shape: "round-rectangle", "corner-radius": 19 } },
        { selector: "node.passage", style: { shape: "rectangle" } },
        { selector: "node.goal", style: { "background-color": ink("--mark") } },
        { selector: "node.seed", style: { "border-width": 3, "border-color": colour("graph") } },
        { selector: "edge", style: { width: 1.6, "line-color": ink("--soft"), "target-arrow-color": ink("--soft"), "target-arrow-shape": "triangle", "curve-style": "bezier", "arrow-scale": 0.8 } },
        { selector: "edge.on", style: { "line-color": colour("graph"), "target-arrow-color": colour("graph") } },
        { selector: ".off", style: { opacity: 0.22 } },
      ],
    });
    const graph = state.graph, held = graph.elements().boundingBox();
    graph.zoom(Math.min(1.1, Math.max(0.6, Math.min((box.clientWidth - 24) / held.w, (box.clientHeight - 24) / held.h))));
    graph.center();
    const seen = graph.elements().renderedBoundingBox(); // what does not fit begins at its start, and is moved by hand
    graph.panBy({ x: seen.w > box.clientWidth ? 12 - seen.x1 : 0, y: seen.h > box.clientHeight ? 12 - seen.y1 : 0 });
    graph.on("tap", "node.passage", (event) => { if (state.view.passages[event.target.data("name")]) select(event.target.data("name")); });
  }

  // Settings.

  const nameOf = (name) => (name === "own" ? "as opened" : name === "compared" ? "--compare" : name);
  function options(id, names, chosen) {
    fill(id, names.map((name) => h("option", { value: name, selected: name === chosen }, name ? nameOf(name) : "nothing")));
  }
  function slider(id, name, least, most, value, move, mark) {
    const input = h("input", { type: "range", id, min: least, max: most, step: (most - least) / 200 || 1, disabled: Boolean(offline) });
    input.value = value;
    input.addEventListener("input", () => move(Number(input.value)));
    return h("div", { class: "slide" }, h("label", { for: id, title: name }, mark, name), input, h("output", { id: `${id}-said`, for: id }));
  }
  function showSettings() {
    const view = state.view, base = view.settings;
    options("pipeline", Object.keys(state.about.pipelines), state.settings.pipeline);
    options("other", ["", ...Object.keys(state.about.pipelines)], state.otherName);
    const names = state.about.sources.map((one) => one.name);
    const weightOf = (name) => (view.sources.find((one) => one.name === name) || {}).weight || 0;
    fill("weights", h("legend", null, "Weights"), names.map((name, place) =>
      slider(`weight-${place}`, name, 0, 1, base.weights ? shareOf(base.weights, name) : weightOf(name), () => {
        state.settings.weights = Object.fromEntries(names.map((one, row) => [one, Number(at(`weight-${row}`).value)]));
        decideAgain();
      }, dot(name))));
    const put = (key, value) => { state.settings[key] = value; decideAgain(); };
    const scores = (name) => view.rows.map((row) => (row.sources[name] || {}).score).filter((one) => one !== null && one !== undefined);
    fill("thresholds", h("legend", null, "Thresholds"),
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
    at("k").value = base.k;
  }
  const shareOf = (weights, name) => (weights[name] || 0) / (Object.values(weights).reduce((sum, one) => sum + one, 0) || 1);
  function followSettings() { // what the server made of it, beside the sliders
    const view = state.view, now = view.settings, own = state.settings.weights === undefined;
    state.about.sources.forEach(({ name }, place) => {
      const weight = (view.sources.find((one) => one.name === name) || {}).weight;
      const input = at(`weight-${place}`);
      if (own) input.value = weight || 0;
      at(`weight-${place}-said`).textContent = weight === null || weight === undefined ? "–" : weight.toFixed(3);
      const least = at(`least-${place}-said`), value = now.thresholds[name];
      if (least) least.textContent = value === undefined || value === null ? "off" : `≥ ${number(value, 2)}`;
    });
    for (const key of ["final", "common", "confidence"]) at(`${key}-said`).textContent = now[key] === null ? "off" : `≥ ${now[key].toFixed(2)}`;
    at("reset").disabled = Boolean(offline) || Object.keys(state.settings).length < 2;
  }

  // Why not this passage?

  async function look(needle) {
    const found = offline ? within(needle) : await json("find", { needle });
    fill("why");
    state.why = null;
    if (!found.length) { fill("found", h("p", { class: "hint" }, "There is no such passage.")); return; }
    if (found.length === 1) { fill("found"); await whyNot(found[0].id); return; }
    fill("found", h("p", { class: "hint" }, `${found.length} passages hold it:`), h("ul", null, found.map((one) => h("li", null,
      h("button", { type: "button", class: "passage", on: { click: () => told(whyNot(one.id)) } }, h("bdi", null, one.title || one.id)), " ",
      h("span", { class: "id" }, h("bdi", null, one.id))))));
  }
  function within(needle) {
    const low = needle.trim().toLowerCase();
    return Object.entries(state.view.passages).map(([id, one]) => ({ id, ...one }))
      .filter((one) => [one.id, one.title, one.text].some((text) => text.toLowerCase().includes(low))).slice(0, 20);
  }
  async function whyNot(id) {
    if (offline) { whyOffline(id); return; }
    const one = await json("why-not", { question: state.question, settings: state.settings, id });
    state.why = id;
    const lines = Object.entries(one.sources).map(([name, said]) => h("tr", null, h("td", { class: "l" }, dot(name), name),
      h("td", null, said.rank === null ? "–" : `${said.rank} of ${said.of}`), h("td", null, number(said.score)), h("td", { class: "l" }, said.said)));
    fill("why", h("h3", null, h("bdi", null, one.title || one.id)), h("p", { class: "text" }, h("bdi", null, one.text)),
      one.said.map((line) => h("p", null, line)),
      h("div", { class: "scroll" }, h("table", null, h("thead", null, h("tr", null, ["source", "rank", "score", ""].map((name, place) => h("th", { class: place % 3 ? null : "l" }, name)))), h("tbody", null, lines))),
      h("p", null, "Words of the question it has: ", one.words.length ? one.words.map((word) => h("span", { class: "tag word" }, word)) : "none",
        one.lacking.length ? [h("br"), "It lacks: ", one.lacking.map((word) => h("span", { class: "tag no word" }, word))] : null),
      one.walk.length ? h("p", { class: "steps" }, "The walk comes there by ", one.walk.map(([kind, name]) => (kind === "passage" ? `[${name}]` : name)).join(" → ")) : null);
  }
  function whyOffline(id) {
    const row = state.view.rows.find((one) => one.id === id);
    const names = state.view.sources.filter((one) => one.weight !== null).map((one) => one.name);
    fill("why", h("h3", null, h("bdi", null, titleOf(id))), h("p", { class: "text" }, h("bdi", null, textOf(id))),
      h("p", null, row.position ? `It is in the answer, at place ${row.position}.` : `It is not in the answer: ${row.verdict === "accepted" ? "others come before it" : row.verdict}.`),
      row.fused === null ? null : detail(state.view, row, names));
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
      found.gained.length + found.lost.length ? null : h("p", { class: "hint" }, "No question gains or loses one."));
  }

  async function save(path, body, name) {
    const blob = await (await call(path, body)).blob(), link = h("a", { download: name });
    link.href = URL.createObjectURL(blob);
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    say(`Saved ${name}.`);
  }

  // What the page's parts do.

  at("ask").addEventListener("submit", (event) => { event.preventDefault(); state.why = null; told(ask(at("question").value.trim())); });
  at("find").addEventListener("submit", (event) => { event.preventDefault(); told(look(at("needle").value)); });
  at("token-form").addEventListener("submit", (event) => { event.preventDefault(); keepToken(at("token").value); at("token").value = ""; told(start()); });
  at("pipeline").addEventListener("change", () => { state.settings = { pipeline: at("pipeline").value }; fill("weights"); decideAgain(); });
  at("other").addEventListener("change", () => { state.otherName = at("other").value; decideAgain(); });
  at("k").addEventListener("change", () => { state.settings.k = Number(at("k").value); decideAgain(); });
  at("reset").addEventListener("click", () => { state.settings = { pipeline: at("pipeline").value }; fill("weights"); decideAgain(); });
  at("flip").addEventListener("click", () => told(flip()));
  at("save-pipeline").addEventListener("click", () => told(save("pipeline", { settings: state.settings }, "pipeline.json")));
  at("save-page").addEventListener("click", () => told(save("export",
    { question: state.question, settings: state.settings, other: compared() }, "answer.html")));
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/INPUT|SELECT|TEXTAREA/.test(event.target.tagName)) { event.preventDefault(); at("question").focus(); at("question").select(); }
  });

  async function start() {
    state.about = offline ? offline.about : await json("about");
    at("token-form").hidden = true;
    const about = state.about;
    at("about").textContent = visible(`${about.name} · ${about.passages} passages · ${about.entities} names`);
    say(about.no_vectors ? "Answered by names and words: --embedder MODULE:OBJECT takes the index's embeddings in." : "");
    at("flips-hint").textContent = about.judged ? `${about.judged} judged questions, each with the settings as moved and with the pipeline as opened.`
      : "Start with --judged QUESTIONS.jsonl to see which questions gain or lose their gold passage by a moved setting.";
    at("flip").hidden = !about.judged;
    if (offline) return;
    fill("starters", about.questions.map((question) => h("li", null,
      h("button", { type: "button", class: "passage", on: { click: () => told(ask(question)) } }, h("bdi", null, question)))));
    at("start-card").hidden = !about.questions.length || Boolean(state.view);
    if (given.has("question") && !state.view) await ask(given.get("question"));
  }
  if (offline) {
    start();
    Object.assign(state, { view: offline.view, other: offline.other, question: offline.view.question });
    state.settings.pipeline = offline.view.pipeline;
    state.otherName = offline.other ? offline.other.pipeline : "";
    for (const id of ["ask", "flips-card"]) at(id).hidden = true;
    show(true);
    for (const one of at("settings-card").querySelectorAll("input,select,button")) one.disabled = true;
    at("settings-card").querySelector(".hint").textContent = "A saved page: its settings are shown, and cannot be moved.";
    at("about").after(h("h2", { id: "asked" }, state.question));
  } else told(start());
})();
