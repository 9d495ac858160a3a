// Flame graph (root below) and icicle (root above) of calls, of Python stacks and of modules.

const FLAME_ROW = 19;
const FLAME_MODES = [["calls", "Calls"], ["stack", "Python stack"], ["module", "Module"]];

// A tree under construction: children are found by number or name under their parent and come after it.
class FlameTree {
  constructor() {
    this.nodes = [{ name: "all", sort: "python", parent: -1, self: 0, total: 0, calls: 0, depth: 0, longest: -1, children: [] }];
    this.known = [new Map()];
  }

  child(parent, key, name, sort) {
    let found = this.known[parent].get(key);
    if (found === undefined) {
      found = this.nodes.length;
      this.known[parent].set(key, found);
      this.known.push(new Map());
      this.nodes[parent].children.push(found);
      this.nodes.push({ name, sort, parent, self: 0, total: 0, calls: 0, depth: this.nodes[parent].depth + 1, longest: -1, children: [] });
    }
    return found;
  }

  add(place, time, event, model) {
    const node = this.nodes[place];
    node.self += time;
    node.calls++;
    if (node.longest < 0 || model.length[event] > model.length[node.longest]) node.longest = event;
  }

  finish() {
    const { nodes } = this;
    for (let i = nodes.length - 1; i >= 0; i--) {
      nodes[i].total += nodes[i].self;
      if (i) nodes[nodes[i].parent].total += nodes[i].total;
    }
    for (const node of nodes) node.children.sort((a, b) => nodes[b].total - nodes[a].total);
    return nodes;
  }
}

// `shown` says which events count: those of the chosen threads, and with or without those that only wait.
function flameTree(model, mode, shown) {
  const tree = new FlameTree();
  if (mode === "calls") growCalls(tree, model, shown);
  else growLeaves(tree, model, mode === "stack" ? stackNodes(tree, model) : moduleNodes(tree, model), mode === "stack" ? model.stack : model.module, shown);
  return tree.finish();
}

function growCalls(tree, model, shown) {
  const place = new Int32Array(model.count);
  for (let i = 0; i < model.count; i++) {
    const kind = model.kinds[model.kind[i]];
    if (kind.sort === "memory" || !shown(i)) continue;
    const parent = model.parent[i] < 0 ? 0 : place[model.parent[i]];
    // What is folded counts for whoever calls it.
    place[i] = model.hidden[i] ? parent : tree.child(parent, kind.label, kind.label, kind.sort);
    if (model.hidden[i]) tree.nodes[parent].self += model.selfTime[i];
    else tree.add(place[i], model.selfTime[i], i, model);
  }
}

// Ops as leaves below the node that stands for their stack or module.
function growLeaves(tree, model, nodes, column, shown) {
  const { time } = model.plain;
  for (let i = 0; i < model.count; i++) {
    const kind = model.kinds[model.kind[i]];
    if (model.isPython[model.kind[i]] || !column[i] || kind.sort === "step" || kind.sort === "annotation" || !shown(i)) continue;
    tree.add(tree.child(nodes[column[i]], kind.label, kind.label, kind.sort), time[i], i, model);
  }
}

function stackNodes(tree, model) {
  const { stacks, frames } = model.header;
  const places = new Int32Array(stacks.length);
  for (let i = 1; i < stacks.length; i++) {
    const [outer, frame] = stacks[i];
    const sort = frames[frame].startsWith("nn.Module: ") ? "module" : "python";
    const folded = model.folded && sort === "python" && !model.isUsers(frames[frame]);
    places[i] = folded ? places[outer] : tree.child(places[outer], `f${frame}`, frames[frame], sort);
  }
  return places;
}

function moduleNodes(tree, model) {
  const { modules } = model.header;
  const places = new Int32Array(modules.length);
  for (let i = 1; i < modules.length; i++) {
    const [parent, name, path] = modules[i];
    places[i] = tree.child(places[parent], `m${i}`, path || name, "module");
  }
  return places;
}

class Flame {
  constructor(model, route) {
    this.model = model;
    this.mode = FLAME_MODES.some(([mode]) => mode === route.mode) ? route.mode : "calls";
    this.upward = false;
    this.thread = "all";
    this.waiting = true;
    this.matches = "";
    this.canvas = el("canvas", {
      class: "surface", tabindex: "0", role: "application", "aria-roledescription": "flame graph", "aria-label": "Flame graph",
      onclick: (click) => this.open(this.at(click)), onmousemove: (move) => this.hover(move),
      onmouseleave: () => this.leave(),
    });
    this.tip = el("div", { class: "tip", hidden: true });
    this.crumbs = el("nav", { class: "crumbs", "aria-label": "Way to the root" });
    this.box = el("div", { class: "flames" }, this.canvas, this.tip);
    this.about = el("p", { class: "facts", "aria-live": "polite" });
    this.root = el("section", { class: "page", "aria-label": "Flame graph" }, this.bar(), this.crumbs, this.about, this.box);
    this.choose(this.mode);
    onResize(this.box, () => this.draw());
  }

  bar() {
    const search = el("input", {
      type: "search", placeholder: "Highlight names", "aria-label": "Highlight names", spellcheck: "false",
      oninput: () => {
        this.matches = search.value.trim().toLowerCase();
        this.draw();
      },
    });
    return el(
      "div", { class: "bar" }, chooser("By", FLAME_MODES, this.mode, (mode) => this.choose(mode)),
      chooser("As", [["down", "Icicle (root on top)"], ["up", "Flame graph (root below)"]], "down", (way) => {
        this.upward = way === "up";
        this.draw();
      }),
      chooser("Thread", [["all", "all"], ...this.threads()], this.thread, (thread) => {
        this.thread = thread;
        this.choose(this.mode);
      }),
      checkbox("Hide waiting", false, (on) => {
        this.waiting = !on;
        this.choose(this.mode);
      }),
      (this.unfold = checkbox("Library frames", !this.model.folded, (on) => {
        this.model.fold(!on);
        this.choose(this.mode);
      })),
      search, button("Reset zoom", () => this.open(0)),
    );
  }

  // Threads that hold anything, the fullest first.
  threads() {
    const counts = this.model.rows.map((rows) => rows.reduce((sum, row) => sum + row.length, 0));
    const order = counts.map((_, number) => number).filter((number) => counts[number]).sort((a, b) => counts[b] - counts[a]);
    return order.map((number) => [number, this.model.header.tracks[number].name]);
  }

  choose(mode) {
    this.mode = mode;
    const { model } = this;
    const thread = this.thread === "all" ? -1 : Number(this.thread);
    const shown = (event) => (thread < 0 || model.track[event] === thread) && (this.waiting || !model.kinds[model.kind[event]].waits);
    this.foldedAs = model.folded;
    this.unfold.querySelector("input").checked = !model.folded;
    this.nodes = flameTree(model, mode, shown);
    this.canvas.dataset.nodes = this.nodes.length;
    this.box.hidden = this.nodes.length === 1;
    writeRoute({ view: "flame", mode });
    this.open(0);
    if (this.nodes.length > 1) return;
    const flag = { calls: "anything", stack: "stacks (with_stack=True)", module: "modules (with_modules=True)" }[mode];
    this.about.textContent = `Nothing to show: the profile was recorded without ${flag}.`;
  }

  open(place) {
    if (place === undefined || place < 0) return;
    this.zoomed = this.current = place;
    const way = [];
    for (let node = place; node >= 0; node = this.nodes[node].parent) way.unshift(node);
    this.crumbs.replaceChildren(...way.map((node) => button(shortName(this.nodes[node].name), () => this.open(node), { title: this.nodes[node].name })));
    this.describe(place);
    this.draw();
  }

  describe(place) {
    const node = this.nodes[place], whole = this.nodes[0].total;
    const link = node.longest >= 0 ? [" · ", eventLink(node.longest, "longest in the timeline")] : [];
    const calls = node.calls ? `, ${formatCount(node.calls)} calls` : "";
    this.about.replaceChildren(
      el("strong", {}, node.name), ` ${formatTime(node.total)} (${formatShare(node.total / whole)}), self ${formatTime(node.self)}${calls}`, ...link,
    );
  }

  draw() {
    if (this.foldedAs !== this.model.folded) return this.choose(this.mode);
    if (!this.box.isConnected || this.box.hidden) return;
    const { nodes } = this;
    const boxes = this.layOut();
    const rows = boxes.reduce((most, { row }) => Math.max(most, row), 0) + 1;
    this.canvas.style.height = `${rows * FLAME_ROW}px`;
    this.surface = this.surface ?? new Surface(this.canvas);
    const context = this.surface.begin();
    const { theme } = this.surface;
    this.rowCount = rows;
    for (const { place, x, width, row } of boxes) {
      const node = nodes[place], y = this.upward ? (rows - 1 - row) * FLAME_ROW : row * FLAME_ROW;
      const found = this.matches && node.name.toLowerCase().includes(this.matches);
      context.globalAlpha = this.matches && !found ? 0.2 : node.depth < nodes[this.zoomed].depth ? 0.55 : 1;
      context.fillStyle = theme.sorts[node.sort][hashOf(node.name) % SHADES];
      context.fillRect(x, y, Math.max(width - 0.75, 0.5), FLAME_ROW - 1.5);
      context.fillStyle = theme.onBar;
      this.surface.text(shortName(node.name), x + 4, y + FLAME_ROW / 2, width - 8);
      if (place === this.current) {
        context.globalAlpha = 1;
        context.strokeStyle = theme.text;
        context.lineWidth = 1.5;
        context.strokeRect(x + 0.5, y + 0.5, Math.max(width - 2, 1), FLAME_ROW - 2.5);
      }
    }
    context.globalAlpha = 1;
    this.boxes = boxes;
    this.canvas.dataset.root = nodes[this.zoomed].name;
    this.canvas.dataset.names = boxes.slice(0, 200).map(({ place }) => nodes[place].name).join("|");
  }

  // The way down to the zoomed node over the full width, then its subtree.
  layOut() {
    const { nodes } = this;
    const width = this.box.clientWidth;
    const boxes = [];
    for (let node = nodes[this.zoomed].parent; node >= 0; node = nodes[node].parent) boxes.push({ place: node, x: 0, width, row: nodes[node].depth });
    const open = [{ place: this.zoomed, x: 0, width }];
    while (open.length) {
      const { place, x, width: room } = open.pop();
      const node = nodes[place];
      boxes.push({ place, x, width: room, row: node.depth });
      let left = x;
      for (const child of node.children) {
        const share = node.total ? (nodes[child].total / node.total) * room : 0;
        if (share >= 0.4) open.push({ place: child, x: left, width: share });
        left += share;
      }
    }
    return boxes;
  }

  at({ offsetX, offsetY }) {
    const line = Math.floor(offsetY / FLAME_ROW);
    const row = this.upward ? this.rowCount - 1 - line : line;
    return this.boxes?.find((box) => box.row === row && offsetX >= box.x && offsetX < box.x + box.width)?.place ?? -1;
  }

  hover(move) {
    const place = this.at(move);
    this.tip.hidden = place < 0;
    if (place < 0) return;
    const node = this.nodes[place];
    this.tip.replaceChildren(
      el("strong", {}, node.name.slice(0, 200)),
      el("span", {}, `${formatTime(node.total)} · ${formatShare(node.total / this.nodes[0].total)} · self ${formatTime(node.self)}`),
    );
    this.tip.style.left = `${Math.max(0, Math.min(move.offsetX + 12, this.box.clientWidth - this.tip.offsetWidth - 8))}px`;
    this.tip.style.top = `${move.offsetY + 16}px`;
  }

  leave() {
    this.tip.hidden = true;
  }

  key(press) {
    const { nodes, current } = this;
    const beside = nodes[nodes[current].parent]?.children ?? [];
    const into = this.upward ? "ArrowUp" : "ArrowDown", out = this.upward ? "ArrowDown" : "ArrowUp";
    const targets = {
      [into]: nodes[current].children[0], [out]: nodes[current].parent,
      ArrowLeft: beside[beside.indexOf(current) - 1], ArrowRight: beside[beside.indexOf(current) + 1],
    };
    if (press.key === "Enter") this.open(current);
    else if (press.key === "Escape") this.open(0);
    else if (press.key in targets) this.moveTo(targets[press.key]);
    else return false;
    return true;
  }

  moveTo(place) {
    if (place === undefined || place < 0) return;
    this.current = place;
    if (this.nodes[place].depth < this.nodes[this.zoomed].depth) this.zoomed = place;
    this.describe(place);
    this.draw();
  }
}
