// The steps side by side, and two of them op by op.

// Steps whose numbers have room below their bars, on small screens too.
const MOST_NUMBERED = 12;

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
    this.chart = el("div", { class: "steps", role: "group", "aria-label": "Time of each step" });
    const most = events.reduce((high, event) => Math.max(high, model.length[event]), 1);
    const scale = el("div", { class: "scale", "aria-hidden": "true" }, el("span", {}, formatTime(most)), el("span", {}, formatTime(most / 2)), el("span", {}, "0"));
    this.about = el("p", { class: "facts", "aria-live": "polite" });
    this.choosers = el("div", { class: "bar" });
    this.table = el("div", { class: "fill" });
    this.root.append(this.legend(), el("div", { class: "scaled" }, scale, this.chart), this.choosers, this.about, this.table);
    this.fill();
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
    const { time } = model.plain;
    const main = model.header.summary.main_track;
    this.parts = this.members.map((members) => {
      const sums = { op: 0, backward: 0 };
      for (const event of members) {
        const sort = model.sort(event);
        if (model.track[event] === main && sort in sums) sums[sort] += time[event];
      }
      return sums;
    });
  }

  legend() {
    return el("ul", { class: "key" }, el("li", {}, swatch("op"), "ops"), el("li", {}, swatch("backward"), "autograd"), el("li", {}, swatch("python"), "everything else"));
  }

  fill() {
    const { model, events, labels } = this;
    const most = events.reduce((high, event) => Math.max(high, model.length[event]), 1);
    const apart = Math.ceil(events.length / MOST_NUMBERED);
    this.chart.replaceChildren(...events.map((event, i) => {
      const share = (time) => `${(time / most) * 100}%`;
      const { op, backward } = this.parts[i];
      const rest = Math.max(0, model.length[event] - op - backward);
      const mark = i === this.first ? "A" : i === this.second ? "B" : "";
      return button([
        el("b", {}, mark),
        el("span", { class: "pile" },
          el("i", { style: { height: share(rest), background: "hsl(var(--python))" } }),
          el("i", { style: { height: share(backward), background: "hsl(var(--backward))" } }),
          el("i", { style: { height: share(op), background: "hsl(var(--op))" } })),
        el("span", { class: "tick", "aria-hidden": "true" }, i % apart ? "" : stepNumber(labels[i]) ?? i),
      ], () => this.pick(i), { class: mark ? "chosen" : "", title: `${labels[i]}: ${formatTime(model.length[event])}`, "aria-label": `${labels[i]}, ${formatTime(model.length[event])}${mark ? `, chosen as ${mark}` : ""}` });
    }));
    const options = labels.map((label, i) => [i, `${label} · ${formatTime(model.length[events[i]])}`]);
    this.choosers.replaceChildren(
      chooser("A", options, this.first, (i) => this.choose(Number(i), this.second)),
      chooser("B", options, this.second, (i) => this.choose(this.first, Number(i))),
      button("Swap", () => this.choose(this.second, this.first)),
    );
    this.compare();
  }

  pick(step) {
    this.choose(this.first, step);
    this.chart.children[step].focus();
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
