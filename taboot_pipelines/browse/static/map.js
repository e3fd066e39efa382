// The map: what the server has placed, drawn by Cytoscape.js, which comes as a chunk of a bundle.
"use strict";

const SIZE = 12, FONT = "sans-serif", ROOM = 146;
const COLOURS = { Service: "service", Container: "container", Image: "image", Network: "network", Host: "host",
                  TailscaleNode: "host", IP: "address", ReverseProxy: "proxy", Endpoint: "endpoint", VPNTunnel: "endpoint" };
const root = document.querySelector(".map");
if (root) {
  const graph = JSON.parse(root.dataset.graph);
  const drawing = sketch(root, graph);
  // Where everything stands is seen at once; what can be moved and asked takes its place when it is made.
  document.addEventListener("DOMContentLoaded", () => requestAnimationFrame(() => setTimeout(() => {
    draw(root, graph, library());
    drawing.remove();
  })));
}

// Of its bundle's chunk: module 9058, and what that asks for.
function library() {
  const [, chunk] = self.webpackChunkjupyter_cytoscape[0];
  const loaded = {};
  const load = (id) => {
    if (!loaded[id]) chunk[id].call((loaded[id] = { exports: {} }).exports, loaded[id], loaded[id].exports, load);
    return loaded[id].exports;
  };
  load.g = globalThis;
  load.nmd = (module) => module;
  return load(9058);
}

// The boxes without their words, by the browser's own means.
function sketch(root, graph) {
  const container = root.querySelector(".canvas");
  const drawing = container.appendChild(document.createElement("canvas"));
  const [w, h] = [drawing.width, drawing.height] = [container.clientWidth, container.clientHeight];
  const all = root.querySelector("input[name=named]:not(:checked)") === null;
  const nodes = graph.nodes.filter((node) => all || node.linked);
  const { zoom, pan } = begun(graph, nodes, w, h);
  const pen = drawing.getContext("2d");
  const colour = colours();
  pen.setTransform(zoom, 0, 0, zoom, pan.x, pan.y);
  pen.fillStyle = colour("sunken");
  const groups = new Set(nodes.map((node) => node.group));
  graph.groups.forEach(({ box }, n) => groups.has(n) && pen.fillRect(...box));
  pen.lineWidth = 2;
  for (const { kind, at: [x, y] } of nodes) {
    pen.strokeStyle = colour(COLOURS[graph.kinds[kind]] || "other");
    pen.strokeRect(x - 78, y - 15, 156, 30);
  }
  performance.mark("sketch");
  return drawing;
}

// The zoom and place by which some places fill a screen; three things are not drawn as large as a wall.
function fitted(places, width, height) {
  let x1 = Infinity, y1 = Infinity, x2 = -Infinity, y2 = -Infinity;
  for (const [x, y] of places)
    [x1, y1, x2, y2] = [Math.min(x1, x - 90), Math.min(y1, y - 60), Math.max(x2, x + 90), Math.max(y2, y + 40)];
  const zoom = Math.min(1.2, width / (x2 - x1), height / (y2 - y1));
  return { zoom, pan: { x: (width - zoom * (x1 + x2)) / 2, y: (height - zoom * (y1 + y2)) / 2 } };
}

// How the map begins: all of it, or where no name could be read on a small screen, the service that is related to
// most: of a network or an image that all share nothing is learned.
function begun(graph, nodes, width, height) {
  const whole = fitted(nodes.map((node) => node.at), width, height);
  const related = graph.nodes.map(() => 0);
  const service = graph.kinds.indexOf("Service");
  for (const { start, end } of graph.edges) for (const n of [start, end]) related[n] += graph.nodes[n].kind === service;
  const most = related.reduce((best, count, n) => (count > related[best] ? n : best), 0);
  if (width >= 600 || whole.zoom >= 0.4 || !related[most]) return whole;
  const [x, y] = graph.nodes[most].at;
  return { zoom: 0.75, pan: { x: width / 2 - 0.75 * x, y: height / 2 - 0.75 * y } };
}

function draw(root, graph, cytoscape) {
  const canvas = root.querySelector(".canvas");
  const facts = root.querySelector("#facts");
  const find = root.querySelector("#find");
  const kindOf = (n) => graph.kinds[graph.nodes[n].kind];
  const page = (n) => `/node?label=${encodeURIComponent(kindOf(n))}&key=${encodeURIComponent(graph.nodes[n].key)}`;
  const boxes = (name) => [...root.querySelectorAll(`input[name="${name}"]`)];

  // An image by its last name and tag, a URL without its scheme: what a box has room for.
  const short = (kind, name) =>
    kind === "Image" ? name.split("@")[0].replace(/.*\//, "") : name.replace(/^[a-z]+:\/\//, "");
  // As much of a name as its box has room for: its beginning and, where names differ, its end.
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = `${SIZE}px ${FONT}`;
  const cut = (name) => {
    const wide = pen.measureText(name).width;
    if (wide <= ROOM) return name;
    const characters = [...name];
    const half = Math.max(1, Math.floor((characters.length * ROOM) / wide / 2) - 1);
    return `${characters.slice(0, half).join("")}…${characters.slice(-half).join("")}`;
  };

  const elements = graph.groups.map(({ name, box: [x, y, w, h] }, n) => ({
    group: "nodes", data: { id: `g${n}`, name, w, h }, position: { x: x + w / 2, y: y + h / 2 }, classes: "group",
    selectable: false, grabbable: false, pannable: true,
  }));
  const thing = (node, n) => ({
    group: "nodes",
    data: { id: `n${n}`, n, name: `${cut(short(kindOf(n), node.name))}\n${kindOf(n)}`, colour: COLOURS[kindOf(n)] || "other" },
    position: { x: node.at[0], y: node.at[1] }, classes: "thing", grabbable: false,
  });
  const [label, key] = JSON.parse(root.dataset.start);
  const start = graph.nodes.findIndex((node, n) => node.key === key && kindOf(n) === label);
  const rest = [];
  graph.nodes.forEach((node, n) => (node.linked || n === start ? elements : rest).push(thing(node, n)));
  // One line from one thing to another, whatever it says; a line back has its words on the other side.
  const lines = new Map();
  for (const edge of graph.edges) {
    const says = edge.says ? `${edge.type} ${edge.says}` : edge.type;
    const id = `e${edge.start}-${edge.end}`;
    if (lines.has(id)) lines.get(id).data.says += ` · ${says}`;
    else lines.set(id, { group: "edges", selectable: false, data: {
      id, source: `n${edge.start}`, target: `n${edge.end}`, says, side: edge.start < edge.end ? -8 : 8 } });
  }
  elements.push(...lines.values());
  const many = elements.length > 1000;
  const cy = cytoscape({
    container: canvas, elements, layout: { name: "preset", fit: false }, style: styles(), minZoom: 0.02, maxZoom: 3,
    hideEdgesOnViewport: many, textureOnViewport: many, boxSelectionEnabled: false, autoungrabify: true,
  });
  let things = cy.nodes(".thing");
  let picked = null;

  function filter() {
    const kinds = new Set(boxes("kind").filter((b) => b.checked).map((b) => +b.value));
    const all = boxes("source");
    const sources = new Set(all.filter((b) => b.checked).map((b) => +b.value));
    const named = boxes("named").every((b) => b.checked);
    // What is only named is most of a large house, and costs nothing until it is asked for.
    if (named && rest.length) things = things.union(cy.add(rest.splice(0)));
    const groups = new Set();
    cy.batch(() => {
      things.forEach((node) => {
        const is = graph.nodes[node.data("n")];
        const shown = kinds.has(is.kind) && (named || is.linked) && (!all.length || is.sources.some((s) => sources.has(s)));
        if (shown) groups.add(is.group);
        node.toggleClass("hidden", !shown);
      });
      cy.nodes(".group").forEach((node, n) => node.toggleClass("hidden", !groups.has(n)));
    });
    document.querySelector("#drawn").textContent = shown().length.toLocaleString("en");
    const left = document.querySelector("#rest");
    if (left) left.hidden = named;
  }

  const shown = () => things.not(".hidden");
  // What Cytoscape's own fit does, without measuring every label first.
  function fit(of = shown()) {
    if (of.length) cy.viewport(fitted(of.map((node) => graph.nodes[node.data("n")].at), cy.width(), cy.height()));
  }

  function pick(node, move) {
    cy.batch(() => {
      cy.elements().removeClass("faded near picked");
      picked = node;
      if (!node) return;
      const around = node.closedNeighborhood();
      cy.elements().not(".group").not(around).addClass("faded");
      around.addClass("near");
      node.addClass("picked");
    });
    tell();
    if (node && move) {
      const box = node.renderedBoundingBox();
      const small = cy.zoom() < 0.6;
      if (small || box.x1 < 0 || box.y1 < 0 || box.x2 > cy.width() || box.y2 > cy.height())
        cy.animate({ center: { eles: node }, zoom: small ? 0.9 : cy.zoom() }, { duration: calm ? 0 : 180 });
    }
  }
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;

  function make(tag, text, attributes) {
    const element = document.createElement(tag);
    if (text) element.textContent = text;
    for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
    return element;
  }

  const say = (text) => facts.replaceChildren(make("p", text, { class: "muted" }));
  function tell() {
    if (!picked) return say("Click or tap a thing, or go from one to the next by the arrow keys.");
    const n = picked.data("n");
    const node = graph.nodes[n];
    const title = make("h2");
    title.append(make("span", kindOf(n), { class: "kind" }), " ", make("a", node.name, { href: page(n) }));
    const about = [node.scope, node.documents === 1 ? "in 1 document" : `in ${node.documents} documents`];
    const list = make("ul", "", { class: "plain" });
    graph.edges.forEach((edge) => {
      if (edge.start !== n && edge.end !== n) return;
      const out = edge.start === n;
      const other = out ? edge.end : edge.start;
      const item = make("li");
      const name = make("button", graph.nodes[other].name, { type: "button", class: "link", "data-node": other });
      item.append(make("span", out ? "→" : "←", { class: "arrow" }), " ",
                  make("a", edge.type, { class: "rel", href: `/edge/${edge.id}`, title: "proof" }), " ", name);
      if (edge.says) item.append(" ", make("span", edge.says, { class: "muted small" }));
      list.append(item);
    });
    facts.replaceChildren(title, make("p", about.filter(Boolean).join(" · "), { class: "muted small" }), list);
  }

  const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  // The nearest thing in the direction of an arrow, one that is related before all others.
  function step([dx, dy]) {
    if (!picked) return pick(nearest(), true);
    const from = picked.position();
    const related = picked.neighborhood(".thing");
    let best = null, least = Infinity;
    shown().forEach((node) => {
      const x = node.position("x") - from.x, y = node.position("y") - from.y;
      const along = x * dx + y * dy, across = Math.abs(x * dy) + Math.abs(y * dx);
      if (along < 4 || across > along * 3) return;
      const far = (along + 2 * across) * (related.contains(node) ? 0.02 : 1);
      if (far < least) [best, least] = [node, far];
    });
    if (best) pick(best, true);
  }
  function nearest() {
    const { x1, y1, x2, y2 } = cy.extent();
    const far = (node) => Math.hypot(node.position("x") - (x1 + x2) / 2, node.position("y") - (y1 + y2) / 2);
    return shown().min(far).ele;
  }

  function zoom(by) {
    cy.zoom({ level: cy.zoom() * by, renderedPosition: { x: cy.width() / 2, y: cy.height() / 2 } });
  }

  cy.on("tap", (event) => pick(event.target === cy || !event.target.hasClass("thing") ? null : event.target));
  cy.on("dbltap", ".thing", (event) => location.assign(page(event.target.data("n"))));
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (ways[event.key]) step(ways[event.key]);
    else if (event.key === "Enter" && picked) location.assign(page(picked.data("n")));
    else if (event.key === "Escape") pick(null);
    else if (event.key === "+" || event.key === "=") zoom(1.3);
    else if (event.key === "-") zoom(1 / 1.3);
    else if (event.key === "0") fit();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  facts.addEventListener("click", (event) => {
    const node = event.target.closest("[data-node]");
    if (node) pick(cy.$id(`n${node.dataset.node}`), true);
  });
  root.addEventListener("change", (event) => {
    if (event.target !== find) { filter(); fit(); }
  });
  root.querySelector(".zoom").addEventListener("click", (event) => {
    const what = event.target.dataset.do;
    if (what === "fit") fit();
    else if (what) zoom(what === "in" ? 1.4 : 1 / 1.4);
  });
  let found = cy.collection();
  find.addEventListener("input", () => {
    const words = find.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const text = (n) => `${graph.nodes[n].name} ${kindOf(n)} ${graph.nodes[n].scope}`.toLowerCase();
    // A service, its container and its image have one name: who looks for it by that means the service.
    const rank = (e) => {
      const name = graph.nodes[e.data("n")].name.toLowerCase();
      return (name === words.join(" ") ? 0 : name.startsWith(words[0]) ? 2 : 4) + (kindOf(e.data("n")) !== "Service");
    };
    found = words.length ? shown().filter((e) => words.every((w) => text(e.data("n")).includes(w)))
                                  .sort((a, b) => rank(a) - rank(b))
                         : cy.collection();
    pick(null);
    if (words.length) {
      const all = graph.nodes.filter((_, n) => words.every((w) => text(n).includes(w))).length;
      const rest = all - found.length;
      say(`${found.length} found${rest ? `, ${rest} more are filtered out` : ""}.`);
    }
    cy.batch(() => { if (words.length) cy.elements().not(".group").not(found).addClass("faded"); });
    if (found.length) fit(found);
    else if (!words.length) fit();
  });
  find.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    if (found.length) { pick(found[0], true); canvas.focus(); }
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => cy.style(styles()));

  filter();
  if (start >= 0) {
    const node = cy.$id(`n${start}`).removeClass("hidden");
    pick(node);
    fit(node.closedNeighborhood(".thing"));
  } else cy.viewport(begun(graph, shown().map((node) => graph.nodes[node.data("n")]), cy.width(), cy.height()));
  cy.one("render", () => performance.mark("map"));
}

// Gives the page's colours by their names in its style sheet.
function colours() {
  const of = getComputedStyle(document.documentElement);
  const named = new Map();
  return (name) => {
    if (!named.has(name)) named.set(name, of.getPropertyValue(`--${name}`).trim());
    return named.get(name);
  };
}

function styles() {
  const colour = colours();
  const words = { "font-family": FONT, color: colour("text") };
  return [
    { selector: "node", style: {
      ...words, shape: "rectangle", label: "data(name)", "text-halign": "center", "z-index-compare": "manual" } },
    { selector: ".thing", style: {
      width: 156, height: 34, "text-wrap": "wrap", "background-color": colour("surface"), "border-width": 2, "z-index": 3,
      "border-color": (node) => colour(node.data("colour")), "font-size": SIZE, "text-valign": "center",
      "min-zoomed-font-size": 5 } },
    { selector: ".group", style: {
      width: "data(w)", height: "data(h)", "background-color": colour("sunken"), "border-width": 1, "z-index": 1,
      "border-color": colour("line"), color: colour("muted"), "font-size": 15, "font-weight": "bold", "text-valign": "top",
      "text-margin-y": 24, "text-wrap": "ellipsis", "text-max-width": "data(w)", "min-zoomed-font-size": 5, events: "no" } },
    { selector: "edge", style: {
      width: 1.2, "line-color": colour("wire"), opacity: 0.55, "curve-style": "haystack", "haystack-radius": 0,
      "z-index-compare": "manual", "z-index": 2, events: "no" } },
    { selector: ".faded", style: { opacity: 0.16 } },
    { selector: "edge.near", style: {
      ...words, opacity: 1, width: 2, "line-color": colour("accent"), "curve-style": "straight", "text-margin-y": "data(side)",
      "target-arrow-shape": "triangle",
      "target-arrow-color": colour("accent"), label: "data(says)", "font-size": 10, "text-wrap": "ellipsis",
      "text-max-width": 220, "min-zoomed-font-size": 6, "text-background-color": colour("ground"),
      "text-background-opacity": 0.9, "text-background-padding": 2, "z-index": 4 } },
    { selector: ".picked", style: { "border-width": 4, "background-color": colour("cited") } },
    { selector: ".hidden", style: { display: "none" } },
  ];
}
