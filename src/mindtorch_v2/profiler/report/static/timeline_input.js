// How the timeline is moved: mouse, wheel, touch and keyboard.

const KEYS = [
  ["← → or A D", "move in time"], ["↑ ↓", "scroll threads"], ["+ − or W S", "zoom"], ["0", "show everything"],
  ["Enter", "select the first event in sight, then go into it"], ["Backspace", "go to the parent"],
  ["N P", "next and previous event beside it"], ["F", "zoom to the selected event"], ["/", "search"], ["Esc", "select nothing"],
];

function keysHelp() {
  const list = el("dl", { class: "keys" });
  for (const [keys, what] of KEYS) list.append(el("dt", {}, keys), el("dd", {}, what));
  return el(
    "section", { class: "details", id: "timeline-keys", "aria-label": "How to move" }, el("h2", {}, "Moving around"),
    el("p", { class: "hint" }, "Wheel or pinch zooms, dragging moves, Shift and dragging measures and zooms, a click shows details, a double click zooms to an event."),
    list,
  );
}

function listen(timeline) {
  const { canvas } = timeline;
  canvas.addEventListener("wheel", (turn) => onWheel(timeline, turn), { passive: false });
  canvas.addEventListener("dblclick", (click) => {
    const event = timeline.at(click.offsetX, click.offsetY);
    if (event >= 0) timeline.zoomTo(event);
  });
  listenPointers(timeline);
}

function onWheel(timeline, turn) {
  turn.preventDefault();
  const unit = turn.deltaMode === 1 ? 16 : 1;
  if (turn.shiftKey || Math.abs(turn.deltaX) > Math.abs(turn.deltaY)) {
    timeline.pan(((turn.deltaX || turn.deltaY) * unit) / timeline.surface.size.width);
  } else if (turn.altKey) timeline.scroll(turn.deltaY * unit);
  else timeline.zoom(Math.exp(turn.deltaY * unit * (turn.ctrlKey ? 0.01 : 0.002)), timeline.from + turn.offsetX / timeline.scale);
}

// One pointer moves, two zoom; one that hardly moves is a click.
function listenPointers(timeline) {
  const { canvas } = timeline;
  const down = new Map();
  let moved = 0, spread = 0;
  canvas.addEventListener("pointerdown", (press) => {
    canvas.focus({ preventScroll: true });
    canvas.setPointerCapture(press.pointerId);
    down.set(press.pointerId, { x: press.offsetX, y: press.offsetY });
    moved = 0;
    if (press.shiftKey) timeline.marked = [timeAt(press), timeAt(press)];
    spread = spreadOf(down);
  });
  const timeAt = (move) => timeline.from + move.offsetX / timeline.scale;
  canvas.addEventListener("pointermove", (move) => {
    const last = down.get(move.pointerId);
    if (!last) return hover(timeline, move);
    const [dx, dy] = [move.offsetX - last.x, move.offsetY - last.y];
    down.set(move.pointerId, { x: move.offsetX, y: move.offsetY });
    moved += Math.abs(dx) + Math.abs(dy);
    if (timeline.marked) {
      timeline.marked[1] = timeAt(move);
      timeline.draw();
    } else if (down.size === 2) {
      const points = [...down.values()];
      const next = spreadOf(down);
      timeline.zoom(spread / next, timeline.from + (points[0].x + points[1].x) / 2 / timeline.scale);
      spread = next;
    } else if (moved > 4) {
      hide(timeline);
      timeline.pan(-dx / timeline.surface.size.width);
      if (dy) timeline.scroll(-dy);
    }
  });
  const up = (press) => {
    const was = down.delete(press.pointerId);
    spread = spreadOf(down);
    if (timeline.marked) return endMark(timeline, moved);
    if (was && moved <= 4 && press.type === "pointerup") click(timeline, press);
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("pointerleave", () => hide(timeline));
}

function spreadOf(down) {
  if (down.size < 2) return 1;
  const [a, b] = [...down.values()];
  return Math.max(10, Math.hypot(a.x - b.x, a.y - b.y));
}

function endMark(timeline, moved) {
  const [from, to] = timeline.marked;
  timeline.marked = null;
  if (moved > 4) timeline.show(Math.min(from, to), Math.max(from, to));
  else timeline.draw();
}

// The track whose name is under the pointer.
function headAt({ lanes, top }, { offsetY }) {
  return lanes.tracks.find((track) => {
    const down = offsetY - lanes.fixed + top - track.y;
    return offsetY > lanes.fixed && down >= 0 && down < TRACK_HEAD;
  });
}

function click(timeline, press) {
  const head = headAt(timeline, press);
  if (head) {
    // All of it, then its name alone, then what there is room for.
    const { number } = head;
    if (timeline.closed.delete(number)) timeline.opened.delete(number);
    else if (head.rows.length < head.total) timeline.opened.add(number);
    else timeline.closed.add(number);
    timeline.lanes = timeline.layLanes();
    return timeline.scroll(0);
  }
  timeline.select(timeline.at(press.offsetX, press.offsetY));
}

function hover(timeline, move) {
  const event = timeline.at(move.offsetX, move.offsetY);
  timeline.canvas.style.cursor = event >= 0 || headAt(timeline, move) ? "pointer" : "default";
  if (event !== timeline.hovered) {
    timeline.hovered = event;
    timeline.draw();
  }
  timeline.tip.hidden = event < 0;
  if (event < 0) return;
  const { model, tip } = timeline;
  const shapes = model.calls[model.call[event]].shapes;
  tip.replaceChildren(
    el("strong", {}, model.name(event).slice(0, 200)),
    el("span", {}, `${formatTime(model.length[event])}, self ${formatTime(model.selfTime[event])}`),
    shapes ? el("span", {}, shapes.slice(0, 120)) : "",
  );
  const { width } = timeline.surface.size;
  tip.style.left = `${Math.max(0, Math.min(move.offsetX + 12, width - tip.offsetWidth - 8))}px`;
  tip.style.top = `${move.offsetY + 16}px`;
}

function hide(timeline) {
  timeline.tip.hidden = true;
  if (timeline.hovered >= 0) {
    timeline.hovered = -1;
    timeline.draw();
  }
}

function onKey(timeline, press) {
  const actions = {
    ArrowLeft: () => timeline.pan(-0.15), a: () => timeline.pan(-0.15),
    ArrowRight: () => timeline.pan(0.15), d: () => timeline.pan(0.15),
    ArrowUp: () => timeline.scroll(-3 * ROW), ArrowDown: () => timeline.scroll(3 * ROW),
    "+": () => timeline.zoom(1 / 1.4), "=": () => timeline.zoom(1 / 1.4), w: () => timeline.zoom(1 / 1.4),
    "-": () => timeline.zoom(1.4), s: () => timeline.zoom(1.4),
    0: () => timeline.show(0, timeline.model.span), Home: () => timeline.show(0, timeline.model.span),
    Enter: () => goInside(timeline), Backspace: () => goTo(timeline, timeline.model.parent[timeline.selected]),
    n: () => goBeside(timeline, 1), p: () => goBeside(timeline, -1),
    f: () => timeline.selected >= 0 && timeline.zoomTo(timeline.selected),
    Escape: () => timeline.select(-1), "/": () => timeline.searchBox.focus(),
  };
  const action = actions[press.key.length === 1 ? press.key.toLowerCase() : press.key];
  action?.();
  return action !== undefined;
}

function goTo(timeline, event) {
  if (event === undefined || event < 0) return;
  timeline.select(event);
  timeline.reveal(event);
}

function goInside(timeline) {
  const { model, selected } = timeline;
  if (selected >= 0) return goTo(timeline, model.children(selected)[0]);
  for (const track of timeline.lanes.tracks) {
    const row = track.rows[0];
    if (!row) continue;
    const place = Math.max(0, model.atTime(row, timeline.from));
    const inSight = model.end(row[place]) >= timeline.from ? row[place] : row[place + 1];
    if (inSight !== undefined) return goTo(timeline, inSight);
  }
}

function goBeside(timeline, direction) {
  const { model, selected } = timeline;
  if (selected < 0) return;
  const row = model.rows[model.track[selected]][model.level[selected]];
  goTo(timeline, row[row.indexOf(selected) + direction]);
}
