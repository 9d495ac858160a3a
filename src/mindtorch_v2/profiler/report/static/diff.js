// Two captures side by side: what got slower, what got faster, what appeared and what is gone.

const VERDICTS = { slower: "worse", appeared: "worse", faster: "better", disappeared: "better" };

class Diff {
  constructor(model) {
    this.tables = model.header.diff;
    this.by = "op";
    this.filter = el("input", { type: "search", placeholder: "Filter", "aria-label": "Filter rows", oninput: () => this.grid?.search(this.filter.value) });
    this.about = el("p", { class: "facts", "aria-live": "polite" });
    this.table = el("div", { class: "fill" });
    this.root = el(
      "section", { class: "page full", "aria-label": "Diff" },
      el("div", { class: "bar" }, this.filter,
        chooser("By", [["op", "Op"], ["module", "Module"], ["stack", "Stack"]], "op", (by) => {
          this.by = by;
          this.fill();
        }),
        button("Save as CSV", () => this.grid && saveFile("diff.csv", "text/csv", this.grid.csv()))),
      this.about, this.table,
    );
    this.fill();
  }

  fill() {
    const table = this.tables[this.by];
    this.grid = null;
    if (table.missing) {
      this.about.textContent = "";
      return this.table.replaceChildren(nothing(`Nothing to compare: ${table.missing}.`));
    }
    const rows = table.rows.map(([key, verdict, change, before, after]) => ({
      key, verdict, change, calls: [before[0], after[0]], self: [before[1], after[1]], total: [before[2], after[2]], bytes: [before[3], after[3]],
    }));
    this.about.replaceChildren(...this.summary(table, rows));
    const name = (row) => (this.by === "stack" ? place(row.key) : el("span", {}, row.key));
    const columns = changeColumns("before", "now", name, (row) => VERDICTS[row.verdict] ?? "muted");
    columns.splice(1, 0, {
      title: "Verdict", text: true, value: (row) => row.verdict, hint: "What is left when noise and the pace of the machine are taken out",
      cell: (row) => el("span", { class: `verdict ${VERDICTS[row.verdict] ?? ""}` }, row.verdict),
    });
    columns.splice(6, 0, {
      title: "95 %", value: (row) => row.change?.[0] ?? 0, hint: "Where the change lies 95 times of 100, without the pace of the machine",
      cell: (row) => (row.change ? `${signed(formatShare, row.change[1])} … ${signed(formatShare, row.change[2])}` : ""),
    });
    columns.push(...pair("Total", (row) => row.total, formatTime));
    if (rows.some((row) => row.bytes[0] || row.bytes[1])) columns.push(...pair("Memory", (row) => row.bytes, (bytes) => signed(formatBytes, bytes)));
    this.grid = new Grid({ label: "Changes", columns, rows, sort: 4 });
    this.grid.search(this.filter.value);
    this.table.replaceChildren(this.grid.root);
  }

  summary({ per, samples, overall, pace, said }, rows) {
    const unit = { step: "a step", capture: "a capture", call: "the capture" }[per];
    const whole = [0, 1].map((side) => rows.reduce((sum, row) => sum + row.self[side], 0));
    const count = (verdict) => rows.filter((row) => row.verdict === verdict).length;
    const recounted = rows.filter((row) => row.calls[0] && row.calls[1] && row.calls[0] !== row.calls[1]).length;
    const range = overall.change ? `, most likely between ${signed(formatShare, overall.change[1])} and ${signed(formatShare, overall.change[2])}` : "";
    const steps = per === "step" ? `, medians of ${samples[0]} and ${samples[1]} steps` : "";
    return [
      el("strong", {}, `${formatTime(Math.round(whole[0]))} → ${formatTime(Math.round(whole[1]))} ${unit}`),
      ` (${signed(formatShare, whole[1] / (whole[0] || 1) - 1)}${range}${steps}). `,
      `Slower ${count("slower")}, faster ${count("faster")}, appeared ${count("appeared")}, disappeared ${count("disappeared")}`,
      recounted ? `; ${recounted} called more or less often.` : ".",
      Math.abs(pace) >= 0.001 ? ` Everything ran ${formatShare(Math.abs(pace))} ${pace > 0 ? "slower" : "faster"} now; verdicts are beyond that.` : "",
      ...said.flatMap((line) => [el("br"), line]),
    ];
  }
}

// What was and what is, as two columns.
const pair = (title, values, format) => ["before", "now"].map((when, side) => ({
  title: `${title}, ${when}`, value: (row) => values(row)[side], cell: (row) => format(Math.round(values(row)[side])),
}));
