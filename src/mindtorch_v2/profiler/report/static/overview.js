// The first page: where the time went, what is worth knowing, and under which circumstances it was recorded.

function overview(model) {
  const { header } = model;
  return el(
    "section", { class: "page overview", "aria-label": "Overview" },
    header.devices ? deviceAnswer(header.devices) : "",
    cards(model),
    whereTimeWent(model),
    findingList(header),
    el("div", { class: "columns" }, topOperators(model), topModules(header), stepBars(model)),
    el("div", { class: "columns" }, threadTable(header), environmentTable(header), recordingTable(header)),
  );
}

function card(title, value, note) {
  return el("div", { class: "card" }, el("span", { class: "title" }, title), el("strong", {}, value), el("span", { class: "note" }, note ?? ""));
}

function cards(model) {
  const { header } = model;
  const { overhead, memory } = header;
  const ops = model.kinds.filter((kind) => kind.sort === "op").length;
  const streams = header.tracks.filter((track) => track.device).length;
  const counted = (count, thing) => `${formatCount(count)} ${thing}${count === 1 ? "" : "s"}`;
  const lanes = counted(header.tracks.length - streams, "thread") + (streams ? `, ${counted(streams, "device stream")}` : "");
  const list = [card("Window", formatTime(model.span), lanes)];
  list.push(card("Events", formatCount(model.count), `${formatCount(ops)} kinds of ops`));
  const { events } = header.steps;
  if (events.length) {
    const times = events.map((event) => model.length[event]).sort((a, b) => a - b);
    list.push(card("Step, median", formatTime(times[times.length >> 1]), `${events.length} steps, ${formatTime(times[0])} to ${formatTime(times[times.length - 1])}`));
  }
  for (const { device, peak_bytes: peak, reserved_bytes: reserved } of header.devices?.memory ?? [])
    list.push(card(`Peak memory of device ${device}`, formatBytes(peak), `${formatBytes(reserved)} reserved`));
  if (memory.peak >= 0 && !header.devices?.memory.length) {
    const total = memory.categories.reduce((sum, _, i) => sum + model[`memory_${i}`][memory.peak], 0);
    list.push(card("Peak memory", formatBytes(total), `at ${formatTime(model.memory_time[memory.peak])}`));
  }
  if (overhead) list.push(card("Profiler's own cost", formatShare(overhead.share), `about ${formatTime(Math.round(overhead.per_event_ns))} an event`));
  else list.push(card("Profiler's own cost", "not known", "the trace does not say"));
  return el("div", { class: "cards" }, list);
}

const PARTS = [
  ["op", "Ops", ["op", "device"]], ["backward", "Autograd", ["backward"]],
  ["python", "Python between ops", ["annotation", "step", "module", "python"]],
];

function whereTimeWent(model) {
  const { summary, tracks } = model.header;
  const parts = PARTS.map(([sort, name, sorts]) => [sort, name, sorts.reduce((sum, key) => sum + (summary.by_sort[key] ?? 0), 0)]);
  parts.push(["idle", "Idle or not recorded", summary.idle_ns]);
  const whole = parts.reduce((sum, [, , time]) => sum + time, 0) || 1;
  const shown = parts.filter(([, , time]) => time / whole >= 0.001);
  const label = shown.map(([, name, time]) => `${name} ${formatShare(time / whole)}`).join(", ");
  const name = tracks[summary.main_track]?.name ?? "the program";
  return el(
    "section", {},
    el("h2", {}, "Where the time went ", el("small", {}, `on ${name}`)),
    el("div", { class: "shares", role: "img", "aria-label": label || "nothing" }, shown.map(([sort, , time]) =>
      el("i", { class: sort, style: { width: `${(time / whole) * 100}%`, background: `hsl(var(--${sort}))` } }))),
    el("ul", { class: "key" }, shown.map(([sort, part, time]) =>
      el("li", {}, swatch(sort), part, el("span", { class: "number" }, `${formatTime(time)} · ${formatShare(time / whole)}`)))),
  );
}

function findingList({ findings, options }) {
  const list = el("ul", { class: "findings" });
  for (const found of findings) {
    const spots = found.spots.filter(([text, , , event]) => text || event >= 0).map(([text, count, time, event]) =>
      el("li", {}, text ? place(text) : "somewhere", ` ${formatCount(count)} × · ${formatTime(time)} `, event >= 0 ? eventLink(event, "show") : ""));
    const blind = found.spots.length && !options.stacks;
    list.append(el(
      "li", { class: found.level, "data-rule": found.rule },
      el("strong", {}, found.title), el("p", {}, found.advice),
      spots.length ? el("ul", { class: "spots" }, spots) : "",
      blind ? el("p", { class: "hint" }, "Record stacks (with_stack=True, or mindtorch profile --stacks) to see the lines of code.") : "",
    ));
  }
  return el("section", {}, el("h2", {}, "Worth knowing"), findings.length ? list : nothing("No rule found anything to say about this run."));
}

function rankList(title, rows, more) {
  const most = Math.max(1, ...rows.map(({ value }) => value));
  return el(
    "section", {}, el("h2", {}, title),
    rows.length ? el("ol", { class: "ranks" }, rows.map(({ name, value, sort, link }) => el(
      "li", {}, barred("", value / most, sort), link ?? el("span", { class: "name", title: name }, name), el("span", { class: "number" }, formatTime(value)),
    ))) : nothing(more),
  );
}

function topOperators(model) {
  const { time } = model.plain;
  const chosen = (event) => (["op", "backward", "device"].includes(model.sort(event)) ? model.kinds[model.kind[event]].label : undefined);
  const rows = sumUp(model, chosen, { time, bytes: model.memory }).sort((a, b) => b.self - a.self).slice(0, 8);
  return rankList("Operators by self time", rows.map((row) => ({
    name: row.key, value: row.self, sort: model.sort(row.first), link: eventLink(row.longest, row.key, { class: "name", title: row.key }),
  })), "No ops were recorded.");
}

function topModules({ modules }) {
  const rows = modules.slice(1).map(([, name, path, , , , forward, backward]) => ({ name: path || name, value: forward + backward, sort: "module" }));
  const shown = rows.sort((a, b) => b.value - a.value).slice(0, 8);
  return rankList("Modules by own time", shown, "No modules were recorded: use with_modules=True, or mindtorch profile.");
}

const MOST_BARS = 200;

function stepBars(model) {
  const { events, labels } = model.header.steps;
  const most = events.reduce((high, event) => Math.max(high, model.length[event]), 1);
  const bars = events.slice(0, MOST_BARS).map((event, i) => el("a", {
    href: routeText({ view: "timeline", event }), title: `${labels[i]}: ${formatTime(model.length[event])}`,
    "aria-label": `${labels[i]}: ${formatTime(model.length[event])}`,
    style: { height: `${(model.length[event] / most) * 100}%`, background: "hsl(var(--step))" },
  }));
  return el("section", {}, el("h2", {}, "Steps", events.length > MOST_BARS ? el("small", {}, ` the first ${MOST_BARS} of ${formatCount(events.length)}`) : ""), bars.length ? [
    el("div", { class: "bars" }, bars),
    el("p", { class: "range" }, el("span", {}, labels[0]), el("span", {}, `the longest takes ${formatTime(most)}`), el("span", {}, labels[bars.length - 1])),
  ] : nothing("No steps: give the profiler a schedule, or annotate the loop's body with record_function."));
}

function factTable(title, rows) {
  return el("section", {}, el("h2", {}, title), el("table", { class: "facts", "aria-label": title }, rows.map(([name, value]) =>
    el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, value)))));
}

function threadTable({ summary, tracks }) {
  return factTable("Threads", summary.tracks.map((track, i) => [tracks[i].name, `${formatCount(track.events)} events, busy ${formatTime(track.busy_ns)}`]));
}

const environmentTable = ({ environment }) => factTable("Environment", Object.entries(environment));

function recordingTable({ options, overhead }) {
  const names = { shapes: "Shapes", stacks: "Stacks", memory: "Memory", flops: "FLOPs", modules: "Modules", all_threads: "All threads", python_gc: "Garbage collections" };
  const rows = Object.entries(names).map(([key, name]) => [name, options[key] ? "yes" : "no"]);
  if (overhead) rows.push(["Cost of recording", `${formatCount(overhead.events)} events × ${formatTime(Math.round(overhead.per_event_ns))}`]);
  return factTable("Recorded", rows);
}
