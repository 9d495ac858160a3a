// A table that can be sorted by its headers and filtered; shows so many rows, and more when asked.

const FIRST_ROWS = 100;

class Grid {
  // Columns: { title, value(row), cell(row), text: true for columns that are not numbers, hint }.
  constructor({ label, columns, rows, sort, descending = true, onsort }) {
    Object.assign(this, { label, columns, rows, sort, descending, onsort });
    this.limit = FIRST_ROWS;
    this.filter = "";
    this.body = el("tbody", {});
    this.head = el("tr", {});
    this.more = el("p", { class: "more" });
    this.root = el(
      "div", { class: "grid" },
      el("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": label },
        el("table", { "aria-label": label }, el("thead", {}, this.head), this.body)),
      this.more,
    );
    this.fill();
  }

  show(rows) {
    this.rows = rows;
    this.limit = FIRST_ROWS;
    this.fill();
  }

  search(text) {
    this.filter = text.trim().toLowerCase();
    this.limit = FIRST_ROWS;
    this.fill();
  }

  // Rows as filtered and sorted now.
  get shown() {
    const texts = this.columns.filter((column) => column.text);
    const found = this.filter
      ? this.rows.filter((row) => texts.some((column) => String(column.value(row)).toLowerCase().includes(this.filter)))
      : this.rows.slice();
    const { value, text } = this.columns[this.sort];
    const sign = this.descending ? -1 : 1;
    return found.sort((a, b) => sign * (text ? String(value(a)).localeCompare(String(value(b))) : value(a) - value(b)));
  }

  sortBy(number) {
    this.descending = number === this.sort ? !this.descending : !this.columns[number].text;
    this.sort = number;
    this.fill();
    announce(`Sorted by ${this.columns[number].title}, ${this.descending ? "largest" : "smallest"} first`);
  }

  fill() {
    this.head.replaceChildren(...this.columns.map((column, number) => this.header(column, number)));
    const rows = this.shown;
    if (rows.length < this.limit * 1.5) this.limit = rows.length;
    this.body.replaceChildren(...rows.slice(0, this.limit).map((row) => this.line(row)));
    const rest = rows.length - this.limit;
    this.more.replaceChildren(
      rows.length === 0 ? "Nothing to show." : "",
      rest > 0 ? button(`Show ${formatCount(Math.min(rest, 10 * FIRST_ROWS))} more of ${formatCount(rows.length)} rows`, () => {
        this.limit += 10 * FIRST_ROWS;
        this.fill();
      }) : "",
    );
  }

  header(column, number) {
    const mine = number === this.sort;
    const order = mine ? (this.descending ? "descending" : "ascending") : "none";
    const arrow = mine ? (this.descending ? " ↓" : " ↑") : "";
    return el(
      "th", { scope: "col", "aria-sort": order, class: column.text ? "" : "number", title: column.hint },
      button(column.title + arrow, () => this.sortBy(number)),
    );
  }

  line(row) {
    return el("tr", {}, this.columns.map((column) => el("td", { class: column.text ? (column.word ? "word" : "") : "number" }, column.cell(row))));
  }

  csv() {
    const rows = this.shown.map((row) => this.columns.map((column) => column.value(row)));
    return asCsv([this.columns.map((column) => column.title), ...rows]);
  }
}

// A number with a bar behind it that shows its share.
function barred(text, share, sort = "op") {
  const width = `${Math.max(0, Math.min(1, share || 0)) * 100}%`;
  return el("span", { class: "barred" }, el("i", { style: { width, background: `hsl(var(--${sort}) / 0.35)` }, "aria-hidden": "true" }), el("span", {}, text));
}
