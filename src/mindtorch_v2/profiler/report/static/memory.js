// Memory over time by category, and the biggest allocations alive at the peak.

// A category has the same colour in every report.
const CATEGORIES = ["Parameter", "Optimizer state", "Gradient", "Activation", "Input", "Autograd detail", "Temporary", "Unknown"];
const seriesOf = (name) => Math.max(0, CATEGORIES.indexOf(name));

class Memory {
  constructor(model) {
    this.model = model;
    const { memory } = model.header;
    this.names = memory.categories;
    this.root = el("section", { class: "page full", "aria-label": "Memory" });
    if (!this.names.length) {
      this.root.append(nothing("No allocations were recorded. Profile with profile_memory=True to see them."));
      return;
    }
    this.times = model.memory_time;
    this.series = this.names.map((_, number) => model[`memory_${number}`]);
    this.totals = Float64Array.from(this.times, (_, i) => this.series.reduce((sum, values) => sum + values[i], 0));
    this.highest = this.totals.reduce((high, value) => Math.max(high, value), 1);
    this.place = memory.peak;
    this.canvas = el("canvas", {
      class: "surface chart", tabindex: "0", role: "img",
      "aria-label": `Memory over time, at most ${formatBytes(this.totals[memory.peak])} at ${formatTime(this.times[memory.peak])}`,
      onmousemove: (move) => this.hover(move), onclick: () => this.openTimeline(), onkeydown: (press) => this.key(press),
    });
    this.surface = new Surface(this.canvas);
    this.about = el("p", { class: "facts", "aria-live": "polite" });
    this.root.append(
      el("ul", { class: "key" }, this.names.map((name, i) => el("li", {}, el("i", { class: "swatch", style: { background: `hsl(var(--series-${seriesOf(name)}))` } }), name, el("span", { class: "number" }, `${formatBytes(this.series[i][memory.peak])} at the peak`)))),
      this.canvas, this.about, el("h2", {}, "Alive at the peak, biggest first"), this.aliveTable(memory.alive),
    );
    this.describe();
    onResize(this.canvas, () => this.draw());
  }

  aliveTable(rows) {
    const { model } = this;
    const name = (row) => (row.event >= 0 ? model.name(row.event) : row.start < 0 ? "before the recording, all together" : "outside of every event");
    const where = (row) => (row.event >= 0 ? model.stackOf(row.event)[0] ?? "" : "");
    const module = (row) => (row.event >= 0 ? model.modulePath(row.event) : "");
    const end = (row) => (row.end < 0 ? model.span : row.end);
    const columns = [
      { title: "Size", value: (row) => row.bytes, cell: (row) => formatBytes(row.bytes) },
      { title: "Allocated by", text: true, value: name, cell: (row) => (row.event >= 0 ? eventLink(row.event, name(row)) : name(row)) },
      { title: "Module", text: true, word: true, value: module, cell: module },
      { title: "Line", text: true, value: where, cell: (row) => place(where(row)) },
      { title: "Allocated at", value: (row) => row.start, cell: (row) => (row.start < 0 ? "before" : formatTime(row.start)) },
      { title: "Lives for", value: (row) => end(row) - row.start, cell: (row) => (row.end < 0 ? "until the end" : formatTime(end(row) - row.start)) },
    ];
    if (this.names.length > 1) columns.splice(1, 0, { title: "Category", text: true, word: true, value: (row) => this.names[row.category], cell: (row) => this.names[row.category] });
    return new Grid({ label: "Allocations alive at the peak", columns, rows, sort: 0 }).root;
  }

  draw() {
    if (!this.surface || !this.root.isConnected) return;
    const context = this.surface.begin();
    const { width, height } = this.surface.size, { theme } = this.surface;
    const left = 64, bottom = height - 20, room = bottom - 10;
    const x = (this.x = (time) => left + (time / this.model.span) * (width - left - 10));
    const y = (bytes) => bottom - (bytes / this.highest) * room;
    this.paintAxes(context, { left, bottom, x, y, width });
    const shown = this.instants(x);
    const lower = new Float64Array(shown.length);
    this.series.forEach((values, number) => {
      context.beginPath();
      this.trace(context, shown, x, (i) => y(lower[i] + Math.max(0, values[shown[i]])), false);
      this.trace(context, shown, x, (i) => y(lower[i]), true);
      context.closePath();
      context.fillStyle = theme.scale[seriesOf(this.names[number])];
      context.globalAlpha = 0.85;
      context.fill();
      for (let i = 0; i < shown.length; i++) lower[i] += Math.max(0, values[shown[i]]);
    });
    context.globalAlpha = 1;
    context.fillStyle = theme.text;
    context.fillRect(x(this.times[this.place]), 4, 1, bottom - 4);
  }

  // Of the instants that fall on one pixel the highest and the last.
  instants(x) {
    const { times, totals } = this;
    const shown = [];
    let column = -1, best = -1;
    const end = (last) => {
      if (best >= 0) shown.push(best);
      if (last > best) shown.push(last);
    };
    for (let i = 0; i < times.length; i++) {
      const here = Math.floor(x(times[i]));
      if (here !== column) {
        end(i - 1);
        [column, best] = [here, i];
      } else if (totals[i] > totals[best]) best = i;
    }
    end(times.length - 1);
    return shown;
  }

  // An outline in steps: a level holds until the next instant. Backwards it closes the area.
  trace(context, shown, x, y, back) {
    const count = shown.length;
    const finish = x(this.model.span);
    if (!back) {
      for (let i = 0; i < count; i++) {
        context.lineTo(x(this.times[shown[i]]), y(i));
        context.lineTo(i + 1 < count ? x(this.times[shown[i + 1]]) : finish, y(i));
      }
    } else {
      for (let i = count - 1; i >= 0; i--) {
        context.lineTo(i + 1 < count ? x(this.times[shown[i + 1]]) : finish, y(i));
        context.lineTo(x(this.times[shown[i]]), y(i));
      }
    }
  }

  paintAxes(context, { left, bottom, x, y, width }) {
    const { theme } = this.surface;
    const unit = 1024 ** Math.min(3, Math.floor(Math.log(this.highest) / Math.log(1024)));
    const step = roundStep(this.highest / unit / 4) * unit;
    for (let bytes = 0; bytes <= this.highest; bytes += step) {
      context.fillStyle = theme.line;
      context.fillRect(left, Math.round(y(bytes)), width - left - 10, 1);
      context.fillStyle = theme.muted;
      this.surface.text(formatBytes(bytes), 4, y(bytes), left - 8);
    }
    const every = roundStep(this.model.span / Math.max(2, width / 130));
    for (let time = 0; time <= this.model.span; time += every) this.surface.text(formatTime(Math.round(time)), x(time), bottom + 11, 80);
  }

  hover(move) {
    if (!this.x) return;
    const width = this.surface.size.width - 74;
    this.moveTo(lowerBound(this.times, ((move.offsetX - 64) / width) * this.model.span) - 1);
  }

  key(press) {
    if (press.key === "ArrowLeft" || press.key === "ArrowRight") this.moveTo(this.place + (press.key === "ArrowLeft" ? -1 : 1) * (press.shiftKey ? 10 : 1));
    else if (press.key === "Home") this.moveTo(this.model.header.memory.peak);
    else if (press.key === "Enter") this.openTimeline();
    else return;
    press.preventDefault();
  }

  moveTo(place) {
    this.place = Math.max(0, Math.min(this.times.length - 1, place));
    this.describe();
    this.draw();
  }

  describe() {
    const peak = this.place === this.model.header.memory.peak ? " (the peak)" : "";
    this.about.textContent = `${formatTime(this.times[this.place])}: ${formatBytes(this.totals[this.place])}${peak}. A click opens the timeline there.`;
  }

  openTimeline() {
    const around = this.model.span / 50, time = this.times[this.place];
    navigate(routeText({ view: "timeline", from: Math.round(time - around), to: Math.round(time + around) }));
  }
}
