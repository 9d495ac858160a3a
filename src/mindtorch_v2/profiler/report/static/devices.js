// What devices did and who asked for it: use, queues and memory over time, kernels, operators, the critical path, the roofline.

const CAUSES = [
  ["device", "Compute kernels", "device"], ["communication", "Communication alone", "backward"], ["copies", "Copies alone", "module"],
  ["input", "Idle: waiting for input", "annotation"], ["synchronisation", "Idle: after a synchronisation", "memory"],
  ["host", "Idle: nothing launched in time", "python"],
];
const us = (value) => (value === null ? "" : formatTime(Math.round(value * 1000)));
const shortKernel = (name) => name.replace(/^void /, "").replace(/\(anonymous namespace\)::/g, "");

// The first thing of the first page: what limits the run, in a sentence with figures, and where.
function deviceAnswer(devices) {
  const limits = devices.limits[0];
  const parts = CAUSES.map(([key, name, sort]) => [name, sort, limits[`${key}_us`]]);
  const whole = parts.reduce((sum, [, , time]) => sum + time, 0) || 1;
  const shown = parts.filter(([, , time]) => time / whole >= 0.001);
  return el(
    "section", { class: "answer", "data-cause": devices.cause },
    el("p", { class: "sentence" }, devices.answer),
    el("div", { class: "shares", role: "img", "aria-label": shown.map(([name, , time]) => `${name} ${formatShare(time / whole)}`).join(", ") },
      shown.map(([, sort, time]) => el("i", { style: { width: `${(time / whole) * 100}%`, background: `hsl(var(--${sort}))` } }))),
    el("ul", { class: "key" }, shown.map(([name, sort, time]) =>
      el("li", {}, swatch(sort), name, el("span", { class: "number" }, `${us(time)} · ${formatShare(time / whole)}`)))),
    answerPlaces(devices),
  );
}

// Where to look: the code under idle gaps where the host is too slow, else the operators that take the device's time.
function answerPlaces(devices) {
  const idle = ["host", "input", "synchronisation"].includes(devices.cause);
  const rows = idle ? idlePlaces(devices.idle).slice(0, 4).map(([name, time]) => [name, us(time)])
    : devices.operators.filter((row) => row.device_self_us).slice(0, 4).map((row) => [row.name, us(row.device_self_us)]);
  if (!rows.length) return "";
  return el("div", { class: "where" },
    el("h3", {}, idle ? "Longest idle while the launching thread was in" : "Most of the device's time is asked for by"),
    el("ul", { class: "spots" }, rows.map(([name, time]) => el("li", {}, place(name), ` ${time}`))));
}

function idlePlaces(idle) {
  const sums = new Map();
  for (const { stack, us: time } of idle) sums.set(innermostPlace(stack), (sums.get(innermostPlace(stack)) ?? 0) + time);
  return [...sums].sort((a, b) => b[1] - a[1]);
}

// The innermost line of code and what runs in it.
function innermostPlace(stack) {
  const code = stack.findLast((name) => /\(\d+\): /.test(name));
  const last = stack[stack.length - 1];
  return code && code !== last ? `${last} in ${code}` : last;
}

class Devices {
  constructor(model) {
    this.model = model;
    this.found = model.header.devices;
    this.charts = this.found.series.map((series) => new Chart(model, series));
    this.roof = this.found.roofline.filter((part) => part.rows.length).map((part) => new Roofline(part));
    this.root = el(
      "section", { class: "page overview devices", "aria-label": "Devices" },
      deviceAnswer(this.found), this.summary(), this.charts.map((chart) => chart.root),
      this.tables(), this.roof.map((plot) => plot.root), this.lists(),
    );
    onResize(this.root, () => this.draw());
  }

  draw() {
    for (const chart of [...this.charts, ...this.roof]) chart.draw();
  }

  summary() {
    const { devices, streams, launches, copies } = this.found;
    const times = ["span_us", "busy_us", "idle_us", "compute_us", "communication_us", "copy_us", "overlap_us"];
    const waits = ["busy_us", "idle_us", "host_wait_us", "kernel_wait_us", "other_us"];
    const list = [
      this.table("Devices", devices, [["Name", "name", true], ["Device", "device"], ...times.map(timeColumn)], 3),
      this.table("Streams", streams, [["Device", "device"], ["Stream", "stream"], ...waits.map(timeColumn)], 2),
    ];
    if (launches.length) list.push(this.table("Launches", launches, [
      ["Launches", "count"], ...["call_median_us", "delay_median_us", "delay_p90_us"].map(timeColumn), ["Kernels shorter than their call", "short_kernels"],
    ]));
    if (copies.length) list.push(this.table("Copies", copies, [
      ["Direction", "direction", true], ["Count", "count"], ["Bytes", "bytes", false, formatBytes], ["Time", "us", false, us],
      ["GB/s", "gb_per_s", false, (value) => value.toFixed(2)], ["Of pageable memory", "pageable_us", false, us],
    ], 3));
    return el("div", { class: "stacked" }, list);
  }

  tables() {
    const { kernels, operators, modules, unattributed_us: lost } = this.found;
    const timed = [["Device self", "device_self_us"], ["Device total", "device_total_us"], ["CPU self", "cpu_self_us"], ["CPU total", "cpu_total_us"]];
    const sides = [["Name", "name", true], ...timed.map(([title, key]) => [title, key, false, us]), ["Calls", "calls"]];
    const whole = kernels.reduce((sum, row) => sum + row.device_us, 0) || 1;
    return el("div", { class: "stacked" },
      this.table("Kernels", kernels, [
        ["Kernel", (row) => shortKernel(row.name), true], ["Family", "family", true], ["Asked for by", (row) => row.operators.join(", "), true],
        ["Time", "device_us", false, us], ["Part", (row) => row.device_us / whole, false, formatShare], ["Calls", "calls"],
      ], 3),
      this.table("Operators, on the CPU and on devices", operators, sides, 1, lost ? `${us(lost)} on devices no operator of the trace asked for.` : ""),
      modules.length ? this.table("Modules, on the CPU and on devices", modules, sides, 2) : "");
  }

  lists() {
    const { critical_path: path, idle, sequences, memory } = this.found;
    const holders = memory.flatMap((row) => row.holders.map((holder) => ({ ...holder, device: row.device, peak: row.peak_bytes })));
    return el("div", { class: "stacked" },
      path.length ? this.table("Critical path", path, [
        ["What", "kind", true], ["Name", (row) => shortKernel(row.name), true], ["Time", "us", false, us], ["Times", "count"],
        ["Gain without it", (row) => row.gain_us ?? -1, false, (value) => (value < 0 ? "" : us(value))],
      ], 2) : "",
      idle.length ? this.table("What the CPU did while a device was idle", idle, [
        ["Where", (row) => row.stack.slice(-4).reverse().join(" ← "), true], ["Device", "device"], ["Idle", "us", false, us],
      ], 2) : "",
      sequences.length ? this.table("Sequences of small kernels, worth fusing or a graph", sequences, [
        ["Kernels", (row) => row.kernels.map((name) => shortKernel(name).split(/[<(]/)[0]).join(" → "), true], ["Asked for by", (row) => row.operators.join(", "), true],
        ["Times", "count"], ["Time", "device_us", false, us], ["Between them", "between_us", false, us],
      ], 2) : "",
      holders.length ? this.table("Memory at its peak", holders, [
        ["Held by", "name", true], ["Device", "device"], ["Bytes", "bytes", false, formatBytes], ["Of the peak", (row) => row.bytes / row.peak, false, formatShare],
      ], 2) : "");
  }

  // Columns: [title, key or function, is text, how a number is written].
  table(title, rows, columns, sort = null, note = "") {
    const made = columns.map(([name, key, text = false, show = formatCount]) => {
      const value = typeof key === "function" ? key : (row) => row[key];
      return { title: name, text, value, cell: text ? (row) => place(value(row)) : (row) => show(value(row)) };
    });
    const grid = new Grid({ label: title, columns: made, rows, sort: sort ?? 0, descending: sort !== null });
    return el("section", {}, el("h2", {}, title), grid.root, note ? nothing(note) : "");
  }
}

const timeColumn = (key) => {
  const words = key.replace(/_us$/, "").replaceAll("_", " ");
  return [words[0].toUpperCase() + words.slice(1), key, false, us];
};

const UNITS = { share: (value) => formatShare(value), count: (value) => formatCount(Math.round(value)), bytes: formatBytes };
const LINE_COLOURS = { compute: 5, communication: 3, copies: 1 };

// Lines over the time of the run; a click opens the timeline there.
class Chart {
  constructor(model, series) {
    Object.assign(this, { model, series, show: UNITS[series.unit] });
    const most = Math.max(...series.lines.flatMap((line) => line.points.map(([, value]) => value)), 0);
    this.highest = series.unit === "share" ? 1 : most || 1;
    const label = `${series.title}: ${series.lines.map((line) => line.name).join(", ")}; at most ${this.show(most)}`;
    this.canvas = el("canvas", { class: "surface chart small", role: "img", "aria-label": label, onclick: (click) => this.open(click) });
    this.surface = new Surface(this.canvas);
    this.root = el(
      "section", {}, el("h2", {}, series.title),
      el("ul", { class: "key" }, series.lines.map((line, i) => el("li", {}, el("i", { class: "swatch", style: { background: `hsl(var(--series-${this.colour(line, i)}))` } }), line.name))),
      this.canvas,
    );
  }

  colour(line, number) {
    return LINE_COLOURS[line.name] ?? number % 8;
  }

  draw() {
    if (!this.root.isConnected) return;
    const context = this.surface.begin();
    const { width, height } = this.surface.size, { theme } = this.surface;
    const left = 64, bottom = height - 18, room = bottom - 8;
    const x = (time) => left + (Math.max(0, Math.min(time, this.model.span)) / this.model.span) * (width - left - 10);
    const y = (value) => bottom - (Math.min(value, this.highest) / this.highest) * room;
    for (const part of [0, 0.5, 1]) {
      context.fillStyle = theme.line;
      context.fillRect(left, Math.round(y(part * this.highest)), width - left - 10, 1);
      context.fillStyle = theme.muted;
      this.surface.text(this.show(part * this.highest), 4, y(part * this.highest) + (part === 1 ? 4 : 0), left - 8);
    }
    const every = roundStep(this.model.span / Math.max(2, width / 130));
    for (let time = 0; time <= this.model.span; time += every) this.surface.text(formatTime(Math.round(time)), x(time), bottom + 10, 80);
    this.series.lines.forEach((line, number) => {
      context.beginPath();
      line.points.forEach(([time, value], i) => {
        context.lineTo(x(time), y(value));
        context.lineTo(i + 1 < line.points.length ? x(line.points[i + 1][0]) : x(this.series.unit === "count" ? time : this.model.span), y(value));
      });
      context.strokeStyle = theme.scale[this.colour(line, number)];
      context.lineWidth = 1.5;
      context.stroke();
      if (line.points.length) {
        context.lineTo(x(this.series.unit === "count" ? line.points.at(-1)[0] : this.model.span), bottom);
        context.lineTo(x(line.points[0][0]), bottom);
        context.fillStyle = theme.scale[this.colour(line, number)];
        context.globalAlpha = 0.25;
        context.fill();
        context.globalAlpha = 1;
      }
    });
  }

  open(click) {
    const time = ((click.offsetX - 64) / (this.surface.size.width - 74)) * this.model.span, around = this.model.span / 50;
    navigate(routeText({ view: "timeline", from: Math.round(time - around), to: Math.round(time + around) }));
  }
}

// Operations a second over operations a byte, both as powers of ten; the larger a dot, the more time it stands for.
class Roofline {
  constructor(part) {
    this.part = part;
    this.types = [...new Set(part.rows.map((row) => row.dtype))];
    this.longest = Math.max(...part.rows.map((row) => row.us));
    this.canvas = el("canvas", {
      class: "surface chart roofline", role: "img", onmousemove: (move) => this.hover(move),
      "aria-label": `Roofline of ${part.device}: ${part.rows.length} operators with shapes`,
    });
    this.surface = new Surface(this.canvas);
    this.about = el("p", { class: "facts", "aria-live": "polite" }, "Point at a dot to see its operator.");
    const rate = (value) => `${(value / 1e12).toPrecision(3)} TFLOP/s`;
    const columns = [
      ["Operator", "operator", true], ["Shapes", "shapes", true], ["Type", "dtype", true], ["Bound", "bound", true],
      ["Time", "us", false, us], ["Calls", "calls"], ["Reached", "flops_per_s", false, rate],
      ["Of the roof", (row) => row.flops_per_s / row.roof_flops_per_s, false, formatShare],
    ];
    this.root = el(
      "section", {}, el("h2", {}, "Roofline ", el("small", {}, `${part.device}: ${part.source}`)),
      el("ul", { class: "key" }, this.types.map((type, i) => el("li", {}, el("i", { class: "swatch", style: { background: `hsl(var(--series-${i % 8}))` } }), type, el("span", { class: "number" }, `at most ${rate(part.flops_per_s[type])}`)))),
      this.canvas, this.about, Devices.prototype.table("Operators under the roof", part.rows, columns, 4),
    );
  }

  draw() {
    if (!this.root.isConnected) return;
    const { rows, flops_per_s: peaks, bytes_per_s: bandwidth } = this.part;
    const context = this.surface.begin();
    const { width, height } = this.surface.size, { theme } = this.surface;
    const left = 100, bottom = height - 24;
    const intensities = rows.map((row) => Math.log10(row.flops / row.bytes));
    const tops = this.types.map((type) => Math.log10(peaks[type]));
    const low = Math.floor(Math.min(...intensities, -1)), high = Math.ceil(Math.max(...intensities, ...tops.map((top) => top - Math.log10(bandwidth))) + 0.3);
    const floor = Math.floor(Math.min(...rows.map((row) => Math.log10(row.flops_per_s)))), ceiling = Math.ceil(Math.max(...tops));
    const x = (value) => left + ((value - low) / (high - low)) * (width - left - 16);
    const y = (value) => bottom - ((value - floor) / (ceiling - floor || 1)) * (bottom - 10);
    context.fillStyle = theme.muted;
    for (let power = low; power <= high; power++) this.surface.text(`${10 ** power >= 1 ? 10 ** power : (10 ** power).toFixed(-power)} FLOP/B`, x(power), bottom + 12, 90);
    for (let power = floor; power <= ceiling; power++) {
      context.fillStyle = theme.line;
      context.fillRect(left, Math.round(y(power)), width - left - 16, 1);
      context.fillStyle = theme.muted;
      this.surface.text(`${10 ** (power - 12)} TFLOP/s`, 4, y(power), left - 8);
    }
    tops.forEach((top, i) => {
      context.beginPath();
      const knee = top - Math.log10(bandwidth), begin = Math.max(low, floor - Math.log10(bandwidth));
      context.moveTo(x(begin), y(begin + Math.log10(bandwidth)));
      context.lineTo(x(knee), y(top));
      context.lineTo(x(high), y(top));
      context.strokeStyle = theme.scale[i % 8];
      context.lineWidth = 2;
      context.stroke();
    });
    this.dots = rows.map((row, i) => ({ row, x: x(intensities[i]), y: y(Math.log10(row.flops_per_s)), size: 3 + 9 * Math.sqrt(row.us / this.longest) }));
    for (const dot of this.dots) {
      context.beginPath();
      context.arc(dot.x, dot.y, dot.size, 0, 2 * Math.PI);
      context.fillStyle = theme.scale[this.types.indexOf(dot.row.dtype) % 8];
      context.globalAlpha = 0.65;
      context.fill();
    }
    context.globalAlpha = 1;
  }

  hover(move) {
    const near = this.dots?.map((dot) => ({ dot, far: Math.hypot(dot.x - move.offsetX, dot.y - move.offsetY) })).sort((a, b) => a.far - b.far)[0];
    if (!near || near.far > near.dot.size + 6) return;
    const { row } = near.dot;
    this.about.textContent = `${row.operator} ${row.shapes}: ${us(row.us)} in ${formatCount(row.calls)} calls, ${formatShare(row.flops_per_s / row.roof_flops_per_s)} of the roof, bound by ${row.bound}`;
  }
}
