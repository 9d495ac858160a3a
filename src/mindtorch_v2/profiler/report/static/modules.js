// The module tree with forward and backward time.

class Modules {
  constructor(model) {
    this.model = model;
    this.rows = model.header.modules.map(([parent, name, path, calls, forward, backward, ownForward, ownBackward], number) =>
      ({ number, parent, name, path, calls, forward, backward, own: ownForward + ownBackward, total: forward + backward, children: [] }));
    this.rows.slice(1).forEach((row) => this.rows[row.parent].children.push(row));
    this.whole = this.rows[0].children.reduce((sum, row) => sum + row.total, 0) || 1;
    this.closed = new Set();
    this.byTime = false;
    this.body = el("tbody", {});
    const titles = ["Module", "Calls", "Forward", "Backward", "Total", "Own"];
    this.root = el(
      "section", { class: "page full", "aria-label": "Modules" },
      this.rows.length > 1 ? [
        el("div", { class: "bar" }, button("Open all", () => this.setAll(false)), button("Close all", () => this.setAll(true)),
          chooser("Order", [["calls", "as called"], ["time", "by time"]], "calls", (order) => {
            this.byTime = order === "time";
            this.fill();
          }),
          el("span", { class: "legend", "aria-hidden": "true" }, el("span", {}, swatch("module"), "forward"), el("span", {}, swatch("backward"), "backward"))),
        el("div", { class: "grid fill" }, el("div", { class: "scroller" }, el(
          "table", { role: "treegrid", "aria-label": "Modules", onkeydown: (press) => this.key(press) },
          el("thead", {}, el("tr", {}, titles.map((title, i) => el("th", { scope: "col", class: i ? "number" : "" }, title)))), this.body,
        ))),
      ] : nothing("No modules were recorded. Profile with with_modules=True (or with_stack=True) to see them."),
    );
    this.fill();
  }

  setAll(closed) {
    this.closed = new Set(closed ? this.rows.filter((row) => row.children.length).map((row) => row.number) : []);
    this.closed.delete(0);
    this.fill();
  }

  fill() {
    const lines = [];
    const walk = (row, level) => {
      const children = this.byTime ? row.children.slice().sort((a, b) => b.total - a.total) : row.children;
      for (const child of children) {
        lines.push(this.line(child, level));
        if (!this.closed.has(child.number)) walk(child, level + 1);
      }
    };
    walk(this.rows[0], 1);
    this.body.replaceChildren(...lines);
  }

  line(row, level) {
    const open = row.children.length ? !this.closed.has(row.number) : undefined;
    const twist = open === undefined ? el("span", { class: "twist" }) : button(open ? "▾" : "▸", () => this.turn(row.number), { class: "twist", tabindex: "-1", "aria-label": open ? "Close" : "Open" });
    const around = this.rows[row.parent].path;
    const short = around && row.path.startsWith(`${around}.`) ? row.path.slice(around.length + 1) : row.path || row.name;
    return el(
      "tr", { "aria-level": level, "aria-expanded": open === undefined ? null : String(open), tabindex: "0", "data-module": row.number },
      el("td", {}, el("span", { class: "named", style: { "padding-left": `${(level - 1) * 18}px` } }, twist, el("b", { title: row.path || row.name }, short), el("span", { class: "muted" }, row.name === short ? "" : row.name))),
      el("td", { class: "number" }, formatCount(row.calls)),
      el("td", { class: "number" }, formatTime(row.forward)),
      el("td", { class: "number" }, formatTime(row.backward)),
      el("td", { class: "number" }, this.split(row)),
      el("td", { class: "number" }, formatTime(row.own)),
    );
  }

  split(row) {
    const part = (value) => `${(value / this.whole) * 100}%`;
    return el("span", { class: "barred" },
      el("i", { style: { width: part(row.forward), background: "hsl(var(--module) / 0.45)" } }),
      el("i", { style: { left: part(row.forward), width: part(row.backward), background: "hsl(var(--backward) / 0.45)" } }),
      el("span", {}, `${formatTime(row.total)} · ${formatShare(row.total / this.whole)}`));
  }

  turn(number, open = this.closed.has(number)) {
    if (open) this.closed.delete(number);
    else this.closed.add(number);
    this.fill();
    this.body.querySelector(`[data-module="${number}"]`)?.focus();
  }

  key(press) {
    const line = press.target.closest("tr[data-module]");
    if (!line) return;
    const number = Number(line.dataset.module);
    const has = this.rows[number].children.length > 0;
    if (press.key === "ArrowDown") line.nextElementSibling?.focus();
    else if (press.key === "ArrowUp") line.previousElementSibling?.focus();
    else if (press.key === "ArrowRight" && has) this.turn(number, true);
    else if (press.key === "ArrowLeft" && has && !this.closed.has(number)) this.turn(number, false);
    else if (press.key === "ArrowLeft") this.body.querySelector(`[data-module="${this.rows[number].parent}"]`)?.focus();
    else if (press.key === "Enter" && has) this.turn(number);
    else return;
    press.preventDefault();
  }
}
