// What is known of one event, as a panel with links to its relatives.

const MOST_RELATIVES = 40;

function details(model, event, { onZoom, onClose }) {
  const kind = model.kinds[model.kind[event]];
  const call = model.calls[model.call[event]];
  const rows = [
    ["Sort", el("span", {}, swatch(kind.sort), kind.sort)],
    ["Start", formatMoment(model.start[event], Math.max(1, model.length[event] / 100))],
    ["Duration", formatTime(model.length[event])],
    ["Self time", formatTime(model.selfTime[event])],
    ["Thread", model.header.tracks[model.track[event]].name],
    ["Overload", kind.overload],
    ["Shapes", call.shapes && el("code", {}, call.shapes)],
    ["Types", call.types],
    ["Arguments", call.values && el("code", {}, call.values)],
    ["FLOPs", call.flops ? `${formatFlops(call.flops)}${flopRate(call.flops, model.length[event])}` : ""],
    ["Memory", model.memory[event] ? signed(formatBytes, model.memory[event]) : ""],
    ["Module", model.modulePath(event)],
  ];
  const list = el("dl", {});
  for (const [name, value] of rows) if (value) list.append(el("dt", {}, name), el("dd", {}, value));
  const tools = el(
    "div", { class: "tools" },
    button("Zoom to it", onZoom),
    button("Copy link", () => copyLink(event)),
    button("Close", onClose),
  );
  return el(
    "section", { class: "details", "aria-label": "Selected event", "data-event": event },
    el("h2", { title: kind.name }, kind.name), tools, list, relatives(model, event), stackList(model, event),
  );
}

const flopRate = (flops, ns) => (ns ? ` · ${(flops / ns).toFixed(2)} GFLOP/s` : "");

function copyLink(event) {
  const link = location.href.split("#")[0] + routeText({ view: "timeline", event });
  const done = () => announce("Link copied");
  if (navigator.clipboard) navigator.clipboard.writeText(link).then(done, () => prompt("Link to this event", link));
  else prompt("Link to this event", link);
}

function relatives(model, event) {
  const box = el("div", {});
  const parent = model.parent[event];
  if (parent >= 0) box.append(el("h3", {}, "Parent"), el("ul", { class: "events parent" }, relative(model, parent)));
  const partner = model.partner.get(event);
  if (partner !== undefined) {
    const onDevice = model.header.tracks[model.track[event]].device;
    const launches = model.sort(event) === "device" ? (onDevice ? "Launched by" : "On the device") : null;
    const title = launches ?? (model.sort(event) === "backward" ? "Forward op" : "Backward node");
    box.append(el("h3", {}, title), el("ul", { class: "events partner" }, relative(model, partner)));
  }
  const children = model.children(event);
  if (children.length) {
    const shown = Array.from(children).sort((a, b) => model.length[b] - model.length[a]).slice(0, MOST_RELATIVES);
    const more = children.length > shown.length ? `, the longest ${shown.length} of them` : "";
    box.append(
      el("h3", {}, `Children (${formatCount(children.length)}${more})`),
      el("ul", { class: "events children" }, shown.map((child) => relative(model, child))),
    );
  }
  return box;
}

function relative(model, event) {
  return el(
    "li", {}, swatch(model.sort(event)),
    eventLink(event, model.name(event), { title: model.name(event) }),
    el("span", { class: "number" }, formatTime(model.length[event])),
  );
}

function stackList(model, event) {
  const stack = model.stackOf(event);
  if (!stack.length) return null;
  return el("div", {}, el("h3", {}, "Stack"), el("ol", { class: "stack" }, stack.map((frame) => el("li", {}, place(frame)))));
}
