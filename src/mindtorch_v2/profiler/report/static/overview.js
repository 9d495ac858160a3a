// The first page: one sentence, what a step is made of, what could be saved, hot code, and how it was recorded.

function overview(model) {
  const { header } = model;
  return el(
    "section", { class: "page overview", "aria-label": "Overview" },
    header.devices ? deviceAnswer(header.devices) : el("p", { class: "headline" }, header.story.headline),
    stepParts(model),
    phaseBar(header),
    findingList(header),
    el("div", { class: "columns" }, hotCode("Hot lines of your code", header.story.lines), hotCode("Hot functions of your code", header.story.functions), memoryByRole(model)),
    cards(model),
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

// What a step is made of: the colour of each part, its name, and what belongs to it.
const PARTS = {
  data: ["memory", "Data", "waiting for the next batch of a DataLoader"],
  forward: ["op", "Forward", "operators outside of backward and optimizer: the model, the loss, and what else is computed"],
  backward: ["backward", "Backward", "the autograd engine and the operators it runs"],
  optimizer: ["step", "Optimizer", "Optimizer.step and zero_grad"],
  python: ["python", "Python", "Python code between operators, the user's and libraries'"],
  idle: ["idle", "Idle", "sleeping, waiting for locks and processes, or nothing recorded"],
};

// A bar of times, each with a colour, a name and what it means; the key below names them.
function shareBar(title, note, rows) {
  const whole = rows.reduce((sum, { time }) => sum + time, 0) || 1;
  const shown = rows.filter(({ time }) => time / whole >= 0.001);
  const label = shown.map(({ name, time }) => `${name} ${formatShare(time / whole)}`).join(", ");
  const tip = ({ name, time, about }) => `${name}: ${formatTime(time)}, ${formatShare(time / whole)}${about ? ` (${about})` : ""}`;
  return el(
    "section", {},
    el("h2", {}, `${title} `, el("small", {}, note)),
    el("div", { class: "shares", role: "img", "aria-label": label || "nothing" }, shown.map((row) =>
      el("i", { class: row.sort, title: tip(row), style: { width: `${(row.time / whole) * 100}%`, background: `hsl(var(--${row.sort}))` } }))),
    el("ul", { class: "key" }, shown.map((row) =>
      el("li", { title: tip(row) }, swatch(row.sort), row.link ?? row.name, el("span", { class: "number" }, `${formatTime(row.time)} · ${formatShare(row.time / whole)}`)))),
  );
}

function stepParts(model) {
  const { story, tracks, summary } = model.header;
  const rows = story.parts.map((part, i) => ({ sort: PARTS[part][0], name: PARTS[part][1], about: PARTS[part][2], time: story.step.parts[i] }));
  const on = tracks[summary.main_track]?.name ?? "the program";
  if (story.step.event < 0) return shareBar("Where the time went", `on ${on}`, rows);
  return shareBar("The median step", eventLink(story.step.event, story.step.label), rows);
}

const PHASE_SORTS = { "start-up": "annotation", "warm-up": "module", steps: "step", run: "step", after: "idle" };

function phaseBar({ story }) {
  return shareBar("The run", "from the beginning of the recording to its end", story.phases.map(([name, start, length]) => ({
    sort: PHASE_SORTS[name] ?? "python", name: name[0].toUpperCase() + name.slice(1), time: length,
    link: el("a", { href: routeText({ view: "timeline", from: start, to: start + length }) }, name[0].toUpperCase() + name.slice(1)),
  })));
}

function hotCode(title, rows) {
  return rankList(title, rows.map(([name, own, total]) => ({
    name, value: own, sort: "python", note: total > own * 1.02 ? `${formatTime(own)} of ${formatTime(total)}` : undefined,
  })), "No stacks were recorded: use with_stack=True, or mindtorch profile.");
}

function memoryByRole(model) {
  const { categories, peak } = model.header.memory;
  const rows = peak < 0 ? [] : categories.map((name, i) => ({ name, value: model[`memory_${i}`][peak], sort: "memory" }));
  const shown = rows.filter(({ value }) => value > 0).sort((a, b) => b.value - a.value);
  return rankList("Memory at its peak, by role", shown, "No memory was recorded: use profile_memory=True, or mindtorch profile --memory.", formatBytes);
}

function findingList({ findings, options }) {
  const list = el("ul", { class: "findings" });
  for (const found of findings) {
    const spots = found.spots.filter(([text, , , event]) => text || event >= 0).map(([text, count, time, event]) =>
      el("li", {}, text ? place(text) : "somewhere", ` ${formatCount(count)} ×${time ? ` · ${formatTime(time)}` : ""} `, event >= 0 ? eventLink(event, "show") : ""));
    const blind = found.spots.length && !options.stacks;
    list.append(el(
      "li", { class: found.level, "data-rule": found.rule },
      el("span", { class: "weight" }, found.time_ns ? `${found.level} · up to ${formatTime(found.time_ns)}, ${formatShare(found.share)}` : found.level),
      el("strong", {}, found.title), el("p", {}, found.advice),
      spots.length ? el("ul", { class: "spots" }, spots) : "",
      blind ? el("p", { class: "hint" }, "Record stacks (with_stack=True, or mindtorch profile without --no-stacks) to see the lines of code.") : "",
    ));
  }
  return el("section", {}, el("h2", {}, "What could be saved"), findings.length ? list : nothing("Nothing stands out: no finding could save half a percent of the run."));
}

function rankList(title, rows, more, format = formatTime) {
  const most = Math.max(1, ...rows.map(({ value }) => value));
  return el(
    "section", {}, el("h2", {}, title),
    rows.length ? el("ol", { class: "ranks" }, rows.map(({ name, value, sort, link, note }) => el(
      "li", {}, barred("", value / most, sort), link ?? el("span", { class: "name", title: name }, name), el("span", { class: "number" }, note ?? format(value)),
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

function stepBars(model) {
  const { events } = model.header.steps;
  return el("section", {}, el("h2", {}, "Steps ", el("small", {}, events.length ? el("a", { href: "#steps" }, "compare") : "")),
    events.length ? histogram(model).root : nothing("No steps: give the profiler a schedule, or annotate the loop's body with record_function."));
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
