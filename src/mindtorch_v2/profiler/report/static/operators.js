// The operator table: summed by name, and by shape, line of code or module on request.

const GROUPINGS = [["name", "Name"], ["shape", "Name and shapes"], ["stack", "Name and stack"], ["module", "Name and module"]];

class Operators {
  constructor(model) {
    this.model = model;
    this.grouping = "name";
    this.withPython = false;
    const filter = el("input", {
      type: "search", placeholder: "Filter", "aria-label": "Filter rows", spellcheck: "false", oninput: () => {
        this.grid.search(filter.value);
        this.count();
      },
    });
    this.counted = el("output", { class: "matches" });
    this.bar = el(
      "div", { class: "bar" }, filter, chooser("Group by", GROUPINGS, this.grouping, (grouping) => this.group(grouping)),
      checkbox("Python functions", false, (on) => {
        this.withPython = on;
        this.group(this.grouping);
      }),
      button("Save as CSV", () => saveFile("operators.csv", "text/csv", this.grid.csv())), this.counted,
    );
    this.place = el("div", { class: "fill" });
    this.root = el("section", { class: "page full", "aria-label": "Operators" }, this.bar, this.place);
    this.group("name");
  }

  group(grouping) {
    this.grouping = grouping;
    const { model } = this;
    const values = this.withPython ? { time: model.selfTime, bytes: model.selfBytes } : model.plain;
    const second = this.second(grouping);
    // Kinds that differ only in an overload or a step's number share a label, hence a row.
    const labels = new Map();
    const numbers = model.kinds.map(({ label, sort }) => {
      const key = sort + label;
      if (!labels.has(key)) labels.set(key, labels.size);
      return labels.get(key);
    });
    const key = (event) => {
      const kind = model.kind[event];
      if ((!this.withPython && model.isPython[kind]) || model.kinds[kind].sort === "memory") return undefined;
      return second ? `${numbers[kind]} ${second.of(event)}` : numbers[kind];
    };
    this.fill(sumUp(model, key, values), second);
    this.count();
  }

  second(grouping) {
    const { model } = this;
    return {
      shape: { title: "Shapes", of: (event) => model.calls[model.call[event]].shapes },
      stack: { title: "Stack", of: (event) => model.stack[event], text: (event) => model.stackOf(event)[0] ?? "" },
      module: { title: "Module", of: (event) => model.module[event], text: (event) => model.modulePath(event) },
    }[grouping];
  }

  fill(rows, second) {
    const { model } = this;
    const whole = rows.reduce((sum, row) => sum + row.self, 0) || 1;
    const most = rows.reduce((high, row) => Math.max(high, row.self), 1);
    const label = (row) => model.kinds[model.kind[row.first]].label;
    const columns = [
      { title: "Name", text: true, value: label, cell: (row) => el("span", { class: "named" }, swatch(model.sort(row.first)), eventLink(row.longest, label(row), { title: "Show the longest call in the timeline" })) },
    ];
    if (second) {
      const read = second.text ?? second.of;
      columns.push({ title: second.title, text: true, value: (row) => read(row.first), cell: (row) => place(read(row.first)) });
    }
    const time = (title, value, hint) => ({ title, value, hint, cell: (row) => formatTime(Math.round(value(row))) });
    columns.push(
      { ...time("Self", (row) => row.self, "Without the ops inside, ns in CSV"), cell: (row) => barred(formatTime(row.self), row.self / most, model.sort(row.first)) },
      { title: "Self %", value: (row) => row.self / whole, cell: (row) => formatShare(row.self / whole) },
      time("Total", (row) => row.total, "With the ops inside"),
      time("Average", (row) => row.total / row.calls, "Total by calls"),
      { title: "Calls", value: (row) => row.calls, cell: (row) => formatCount(row.calls) },
    );
    if (model.header.options.memory) columns.push({ title: "Memory", value: (row) => row.bytes, cell: (row) => formatBytes(row.bytes), hint: "Allocated less freed, without the ops inside" });
    if (rows.some((row) => row.flops)) columns.push({ title: "FLOPs", value: (row) => row.flops, cell: (row) => formatFlops(row.flops) });
    this.grid = new Grid({ label: "Operators", columns, rows, sort: second ? 2 : 1 });
    this.place.replaceChildren(this.grid.root);
    this.grid.search(this.bar.querySelector("input[type=search]").value);
  }

  count() {
    this.counted.textContent = `${formatCount(this.grid.shown.length)} rows`;
  }
}
