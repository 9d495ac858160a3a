// The steps: how their times are spread, one after the other, and two of them op by op.

// Bars whose numbers have room below them, on small screens too.
const MOST_NUMBERED = 12;
const MOST_COLUMNS = 100, MOST_BINS = 32, MOST_LISTED = 300;

// Where a chart of times ends: beyond it lie few, and they would press all others to the ground.
function clipOf(times) {
  const sorted = Float64Array.from(times).sort();
  const most = sorted[sorted.length - 1], usual = sorted[Math.floor((sorted.length - 1) * 0.97)];
  return most > usual * 1.6 ? usual * 1.25 : most;
}

// How many steps take how long; the last bar holds those that take longer than the axis shows.
function histogram(model, onpick = null) {
  const { events, labels } = model.header.steps;
  const times = events.map((event) => model.length[event]);
  const low = times.reduce((least, time) => Math.min(least, time), Infinity), clip = clipOf(times);
  const bins = Math.max(4, Math.min(MOST_BINS, Math.ceil(Math.sqrt(times.length) * 2)));
  const width = Math.max(1, (clip - low) / bins);
  const rows = Array.from({ length: bins + 1 }, () => []);
  times.forEach((time, i) => rows[time > clip ? bins : Math.min(bins - 1, Math.floor((time - low) / width))].push(i));
  if (!rows[bins].length) rows.pop();
  const most = rows.reduce((high, row) => Math.max(high, row.length), 1);
  const bars = rows.map((row, i) => {
    const range = i === bins ? `longer than ${formatTime(clip)}` : `${formatTime(Math.round(low + i * width))} to ${formatTime(Math.round(low + (i + 1) * width))}`;
    const longest = row.reduce((best, step) => (best < 0 || times[step] > times[best] ? step : best), -1);
    const text = `${formatCount(row.length)} ${row.length === 1 ? "step" : "steps"}, ${range}${row.length ? `; the longest is ${labels[longest]}` : ""}`;
    const style = { height: `${row.length ? Math.max(2, (row.length / most) * 100) : 0}%`, background: i === bins ? "var(--warning)" : "hsl(var(--step))" };
    if (!row.length) return el("i", { title: text, style });
    if (onpick) return button("", () => onpick(longest), { title: text, "aria-label": text, style });
    return el("a", { href: routeText({ view: "timeline", event: events[longest] }), title: text, "aria-label": text, style });
  });
  const beyond = rows.length > bins ? `${formatCount(rows[bins].length)} up to ${formatTime(Math.max(...rows[bins].map((i) => times[i])))}` : formatTime(clip);
  const range = el("p", { class: "range" }, el("span", {}, formatTime(low)), el("span", {}, `${formatCount(times.length)} steps`), el("span", {}, beyond));
  return { root: el("div", { class: "histogram" }, el("div", { class: "bars" }, bars), range), clip };
}

class Steps {
  constructor(model) {
    this.model = model;
    const { events, labels } = model.header.steps;
    this.events = events;
    this.labels = labels;
    this.root = el("section", { class: "page full", "aria-label": "Steps" });
    if (events.length < 1) {
      this.root.append(nothing("No steps were recorded. Give the profiler a schedule and call step(), or annotate the loop's body with record_function."));
      return;
    }
    this.assign();
    const order = events.map((_, i) => i).sort((a, b) => model.length[events[a]] - model.length[events[b]]);
    this.first = order[order.length >> 1];
    this.second = order[order.length - 1];
    if (this.first === this.second) this.first = order[0];
    const spread = histogram(model, (step) => this.pick(step));
    this.clip = spread.clip;
    this.chart = el("div", { class: "steps", role: "group", "aria-label": "Time of each step" });
    const scale = el("div", { class: "scale", "aria-hidden": "true" }, el("span", {}, formatTime(this.clip)), el("span", {}, formatTime(this.clip / 2)), el("span", {}, "0"));
    this.about = el("p", { class: "facts", "aria-live": "polite" });
    this.choosers = el("div", { class: "bar" });
    this.table = el("div", { class: "fill" });
    this.root.append(
      el("div", { class: "spread" }, el("section", {}, el("h2", {}, "How long steps take"), spread.root),
        el("section", {}, el("h2", {}, "One after the other", el("small", {}, this.perColumn > 1 ? ` ${this.perColumn} to a bar, its slowest drawn` : "")), el("div", { class: "scaled" }, scale, this.chart), this.legend())),
      this.choosers, this.about, this.table,
    );
    this.fill();
  }

  get perColumn() {
    return Math.ceil(this.events.length / MOST_COLUMNS);
  }

  // Which step each event belongs to, by the time it begins; -1 for none.
  assign() {
    const { model, events } = this;
    const step = new Int32Array(model.count).fill(-1);
    let now = -1;
    // Other processes have steps of their own.
    const process = (event) => model.header.tracks[model.track[event]].pid;
    const mine = model.header.tracks.map(({ pid }) => pid === process(events[0]));
    for (let i = 0; i < model.count; i++) {
      while (now + 1 < events.length && model.start[i] >= model.start[events[now + 1]]) now++;
      if (now >= 0 && mine[model.track[i]] && model.start[i] <= model.end(events[now])) step[i] = now;
    }
    this.members = events.map(() => []);
    for (let i = 0; i < model.count; i++) if (step[i] >= 0) this.members[step[i]].push(i);
  }

  legend() {
    return el("ul", { class: "key" }, this.model.header.story.parts.map((part) => el("li", { title: PARTS[part][2] }, swatch(PARTS[part][0]), PARTS[part][1])));
  }

  fill() {
    const { model, events, labels, perColumn, clip } = this;
    const parts = model.header.story.parts;
    const groups = Array.from({ length: Math.ceil(events.length / perColumn) }, (_, i) => i * perColumn);
    const apart = Math.ceil(groups.length / MOST_NUMBERED);
    this.chart.replaceChildren(...groups.map((first, column) => {
      let step = first;
      for (let i = first; i < Math.min(first + perColumn, events.length); i++) if (model.length[events[i]] > model.length[events[step]]) step = i;
      const holds = (i) => i >= first && i < first + perColumn;
      const mark = holds(this.first) ? "A" : holds(this.second) ? "B" : "";
      const time = model.length[events[step]], over = time > clip;
      const shown = over ? clip / time : 1;
      const label = `${labels[step]}: ${formatTime(time)}`;
      return button([
        el("b", {}, mark || (over ? "▲" : "")),
        el("span", { class: "pile" }, parts.map((part, i) => el("i", { style: { height: `${((model[`part_${i}`][step] * shown) / clip) * 100}%`, background: `hsl(var(--${PARTS[part][0]}))` } })).reverse()),
        el("span", { class: "tick", "aria-hidden": "true" }, column % apart ? "" : stepNumber(labels[first]) ?? first),
      ], () => this.pick(step), { class: mark ? "chosen" : "", title: over ? `${label}, more than is drawn` : label, "aria-label": `${label}${mark ? `, chosen as ${mark}` : ""}` });
    }));
    this.choosers.replaceChildren(
      this.chooser("A", this.first, (i) => this.choose(i, this.second)),
      this.chooser("B", this.second, (i) => this.choose(this.first, i)),
      button("Swap", () => this.choose(this.second, this.first)),
    );
    this.compare();
  }

  // A list of steps; of very many their place by number.
  chooser(label, chosen, onchange) {
    const { model, events, labels } = this;
    if (events.length <= MOST_LISTED) {
      const options = labels.map((name, i) => [i, `${name} · ${formatTime(model.length[events[i]])}`]);
      return chooser(label, options, chosen, (i) => onchange(Number(i)));
    }
    const box = el("input", { type: "number", min: 0, max: events.length - 1, value: chosen, onchange: () => onchange(Math.min(events.length - 1, Math.max(0, Math.round(Number(box.value)) || 0))) });
    return el("label", { class: "field" }, el("span", {}, label), box, el("span", {}, labels[chosen]));
  }

  pick(step) {
    this.choose(this.first, step);
    this.chart.children[Math.floor(step / this.perColumn)].focus();
  }

  choose(first, second) {
    this.first = first;
    this.second = second;
    this.fill();
  }

  compare() {
    const { model, events, labels, first, second } = this;
    const change = model.length[events[second]] - model.length[events[first]];
    this.about.textContent = first === second ? "Choose another step to compare with." : `${labels[second]} takes ${signed(formatTime, change)} (${signed(formatShare, change / model.length[events[first]])}) against ${labels[first]}.`;
    const key = (event) => (model.isPython[model.kind[event]] || model.sort(event) === "memory" ? undefined : model.kinds[model.kind[event]].label);
    const rows = new Map();
    [first, second].forEach((step, side) => {
      for (const sums of sumUp(model, key, model.plain, this.members[step])) {
        if (!rows.has(sums.key)) rows.set(sums.key, { key: sums.key, longest: sums.longest, self: [0, 0], calls: [0, 0] });
        const row = rows.get(sums.key);
        row.self[side] = sums.self;
        row.calls[side] = sums.calls;
      }
    });
    this.table.replaceChildren(new Grid({ label: "Ops of both steps", columns: changeColumns("A", "B", (row) => eventLink(row.longest, row.key)), rows: [...rows.values()], sort: 3 }).root);
  }
}

const change = (row) => row.self[1] - row.self[0];
const toneOf = (row) => (change(row) > 0 ? "worse" : change(row) < 0 ? "better" : "muted");

// Columns for rows { key, self: [one, other], calls: [one, other] }; `tone` says how a change is coloured.
function changeColumns(one, other, cell, tone = toneOf) {
  const ratio = (row) => (row.self[0] ? row.self[1] / row.self[0] : Infinity);
  return [
    { title: "Name", text: true, value: (row) => row.key, cell },
    { title: `Self, ${one}`, value: (row) => row.self[0], cell: (row) => formatTime(Math.round(row.self[0])) },
    { title: `Self, ${other}`, value: (row) => row.self[1], cell: (row) => formatTime(Math.round(row.self[1])) },
    { title: "Change", value: (row) => Math.abs(change(row)), cell: (row) => el("span", { class: tone(row) }, signed(formatTime, Math.round(change(row)))) },
    { title: "Ratio", value: (row) => (Number.isFinite(ratio(row)) ? ratio(row) : 1e9), cell: (row) => (row.self[0] && row.self[1] ? `× ${formatRatio(ratio(row))}` : row.self[1] ? "new" : "gone") },
    { title: `Calls, ${one}`, value: (row) => row.calls[0], cell: (row) => formatCount(Math.round(row.calls[0] * 100) / 100) },
    { title: `Calls, ${other}`, value: (row) => row.calls[1], cell: (row) => formatCount(Math.round(row.calls[1] * 100) / 100) },
  ];
}
