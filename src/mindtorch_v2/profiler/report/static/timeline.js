// The timeline: what is drawn where. How it is moved is in timeline_input.js.

const ROW = 18, RULER = 24, STEP_LANE = 20, MEMORY_LANE = 46, TRACK_HEAD = 22, MOST_ARROWS = 3000;

class Timeline {
  constructor(model, route) {
    this.model = model;
    this.from = 0;
    this.to = model.span;
    this.top = 0;
    this.selected = -1;
    this.hovered = -1;
    // How much of a track is shown where not all of it is: its first row, or as many as leave room for the others.
    this.closed = new Set();
    this.opened = new Set();
    this.arrows = false;
    this.matches = null;
    this.found = [];
    this.canvas = el("canvas", {
      class: "surface", tabindex: "0", role: "application", "aria-roledescription": "timeline",
      "aria-label": "Timeline of events", "aria-describedby": "timeline-keys",
    });
    this.surface = new Surface(this.canvas);
    this.tip = el("div", { class: "tip", hidden: true });
    this.side = el("aside", { class: "side", "aria-label": "Details" });
    this.bar = this.toolbar();
    this.root = el(
      "section", { class: "timeline", "aria-label": "Timeline" }, this.bar,
      el("div", { class: "stage" }, el("div", { class: "drawing" }, this.canvas, this.tip), this.side),
    );
    this.lanes = this.layLanes();
    listen(this);
    onResize(this.canvas, () => {
      this.lanes = this.layLanes();
      this.draw();
    });
    this.follow(route);
  }

  // Goes where an address points.
  follow(route) {
    this.lanes = this.layLanes();
    if (route.search !== undefined) {
      this.searchBox.value = route.search;
      this.search(route.search);
    }
    if (route.from !== undefined && route.to > route.from) this.show(route.from, route.to);
    if (route.event !== undefined && route.event >= 0 && route.event < this.model.count) {
      this.select(route.event);
      if (route.from === undefined) this.reveal(route.event);
    } else if (!this.side.firstChild) this.select(-1);
    this.draw();
  }

  key(press) {
    return onKey(this, press);
  }

  toolbar() {
    this.searchBox = el("input", {
      type: "search", placeholder: "Search names", "aria-label": "Search event names", spellcheck: "false",
      oninput: () => this.search(this.searchBox.value),
      onkeydown: (press) => {
        if (press.key === "Enter") this.nextMatch(press.shiftKey ? -1 : 1);
      },
    });
    this.matchCount = el("output", { class: "matches", "aria-live": "polite" });
    return el(
      "div", { class: "bar" }, this.searchBox, this.matchCount,
      el("span", { class: "together" },
        button("‹", () => this.nextMatch(-1), { "aria-label": "Previous match" }),
        button("›", () => this.nextMatch(1), { "aria-label": "Next match" })),
      el("span", { class: "gap" }),
      el("span", { class: "together" },
        button("−", () => this.zoom(1.6), { "aria-label": "Zoom out" }),
        button("+", () => this.zoom(1 / 1.6), { "aria-label": "Zoom in" }),
        button("Fit", () => this.show(0, this.model.span), { "aria-label": "Show everything" })),
      checkbox("Forward–backward arrows", false, (on) => {
        this.arrows = on;
        this.draw();
      }),
      this.model.launch.length ? checkbox("Launch arrows", false, (on) => {
        this.launchArrows = on;
        this.draw();
      }) : "",
      (this.unfold = checkbox("Library frames", !this.model.folded, (on) => this.refold(!on))),
      el("span", { class: "legend", "aria-hidden": "true" }, this.legend()),
    );
  }

  legend() {
    const present = new Set(this.model.kinds.map((kind) => kind.sort));
    return this.model.header.sorts.filter((sort) => present.has(sort)).map((sort) => el("span", {}, swatch(sort), sort));
  }

  // Shows or folds functions of libraries.
  refold(folded) {
    this.model.fold(folded);
    this.unfold.querySelector("input").checked = !folded;
    this.lanes = this.layLanes();
    this.scroll(0);
  }

  // How many rows a track may have at first: all tracks are to be seen.
  rowLimit(fixed, tracks) {
    const room = this.canvas.clientHeight - fixed - tracks.length * (TRACK_HEAD + 6);
    const wanted = tracks.map((number) => this.model.rows[number].length).sort((a, b) => a - b);
    let left = Math.floor(room / ROW), limit = 1;
    for (let i = 0; i < wanted.length; i++) {
      limit = Math.max(1, Math.floor(left / (wanted.length - i)));
      if (wanted[i] > limit) break;
      left -= wanted[i];
    }
    return this.canvas.clientHeight ? limit : Infinity;
  }

  // Lanes that stay on top, then tracks: their place from the top of what can be scrolled.
  layLanes() {
    const { header } = this.model;
    let fixed = RULER;
    const steps = header.steps.events.length ? fixed : -1;
    if (steps >= 0) fixed += STEP_LANE;
    const memory = header.memory.categories.length ? fixed : -1;
    if (memory >= 0) fixed += MEMORY_LANE;
    let y = 0;
    const tracks = [];
    // Threads of the program first, then what runs on devices for them.
    const order = header.tracks.map((_, number) => number).sort((a, b) => header.tracks[a].device - header.tracks[b].device || a - b);
    const filled = order.filter((number) => this.model.rows[number].length);
    const limit = filled.length > 1 ? this.rowLimit(fixed, filled) : Infinity;
    filled.forEach((number) => {
      const rows = this.model.rows[number];
      const shown = this.closed.has(number) ? 0 : this.opened.has(number) ? rows.length : Math.min(rows.length, limit);
      const name = shown && shown < rows.length ? `${header.tracks[number].name} · ${shown} of ${rows.length} rows` : header.tracks[number].name;
      tracks.push({ number, name, y, rows: rows.slice(0, shown), total: rows.length, height: TRACK_HEAD + shown * ROW + 6 });
      y += TRACK_HEAD + shown * ROW + 6;
    });
    return { steps, memory, fixed, tracks, height: y };
  }

  // Moving

  get scale() {
    return this.surface.size.width / (this.to - this.from);
  }

  x(time) {
    return (time - this.from) * this.scale;
  }

  show(from, to) {
    const least = 20;
    const span = Math.min(Math.max(to - from, least), this.model.span * 1.02);
    const middle = (from + to) / 2;
    this.from = Math.min(Math.max(middle - span / 2, -this.model.span * 0.01), this.model.span * 1.01 - span);
    this.to = this.from + span;
    this.remember();
    this.draw();
  }

  zoom(factor, at = (this.from + this.to) / 2) {
    this.show(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }

  pan(part) {
    const by = (this.to - this.from) * part;
    this.show(this.from + by, this.to + by);
  }

  scroll(by) {
    const seen = (this.surface.size?.height ?? 0) - this.lanes.fixed;
    this.top = Math.max(0, Math.min(this.top + by, this.lanes.height - seen));
    this.draw();
  }

  // Brings an event into sight without changing more than needed.
  reveal(event) {
    const { model } = this;
    const length = Math.max(model.length[event], 200);
    const inside = model.start[event] >= this.from && model.end(event) <= this.to && length > (this.to - this.from) / 40;
    if (!inside) this.show(model.start[event] - length * 3, model.end(event) + length * 3);
    if (model.hidden[event]) this.refold(false);
    this.closed.delete(model.track[event]);
    this.lanes = this.layLanes();
    if (model.level[event] >= (this.lanes.tracks.find(({ number }) => number === model.track[event])?.rows.length ?? 0)) {
      this.opened.add(model.track[event]);
      this.lanes = this.layLanes();
    }
    const track = this.lanes.tracks.find(({ number }) => number === model.track[event]);
    const y = track.y + TRACK_HEAD + model.level[event] * ROW;
    const seen = (this.surface.size?.height ?? 400) - this.lanes.fixed;
    if (y < this.top || y + ROW > this.top + seen) this.scroll(y - seen / 2 - this.top);
  }

  remember() {
    clearTimeout(this.remembering);
    this.remembering = setTimeout(() => {
      if (!this.root.isConnected) return;
      const whole = this.from <= 0 && this.to >= this.model.span;
      const range = whole ? {} : { from: Math.round(this.from), to: Math.round(this.to) };
      const event = this.selected >= 0 ? this.selected : undefined;
      writeRoute({ view: "timeline", event, ...range, search: this.searchBox.value });
    }, 150);
  }

  // Choosing

  select(event) {
    this.selected = event;
    this.side.replaceChildren(
      event >= 0
        ? details(this.model, event, { onZoom: () => this.zoomTo(event), onClose: () => this.select(-1) })
        : keysHelp(),
    );
    if (event >= 0) announce(`${this.model.name(event)}, ${formatTime(this.model.length[event])}`);
    this.remember();
    this.draw();
  }

  zoomTo(event) {
    const margin = Math.max(this.model.length[event] * 0.05, 10);
    this.show(this.model.start[event] - margin, this.model.end(event) + margin);
    this.reveal(event);
  }

  search(text) {
    const wanted = text.trim().toLowerCase();
    this.matches = null;
    this.found = [];
    if (wanted) {
      this.matches = Uint8Array.from(this.model.kinds, (kind) => kind.name.toLowerCase().includes(wanted));
      for (let i = 0; i < this.model.count; i++) if (this.matches[this.model.kind[i]]) this.found.push(i);
    }
    this.matchCount.textContent = wanted ? `${formatCount(this.found.length)} found` : "";
    this.remember();
    this.draw();
  }

  nextMatch(direction) {
    const { found } = this;
    if (!found.length) return;
    const after = found.findIndex((event) => event > this.selected);
    let place = direction > 0 ? (after < 0 ? 0 : after) : (after < 0 ? found.length : after) - 1;
    if (direction < 0 && found[place] === this.selected) place--;
    const event = found[(place + found.length) % found.length];
    this.select(event);
    this.reveal(event);
    this.matchCount.textContent = `${formatCount(found.indexOf(event) + 1)} of ${formatCount(found.length)}`;
  }

  // The event under a point, -1 for none.
  at(x, y) {
    const time = this.from + x / this.scale;
    const slack = 2 / this.scale;
    const down = y - this.lanes.fixed + this.top;
    if (y < this.lanes.fixed) {
      const onSteps = this.lanes.steps >= 0 && y >= this.lanes.steps && y < this.lanes.steps + STEP_LANE;
      return onSteps ? this.eventIn(this.model.header.steps.events, time, slack) : -1;
    }
    const track = this.lanes.tracks.find((lane) => down >= lane.y && down < lane.y + lane.height);
    const row = track?.rows[Math.floor((down - track.y - TRACK_HEAD) / ROW)];
    return row ? this.eventIn(row, time, slack) : -1;
  }

  eventIn(row, time, slack) {
    const { model } = this;
    const place = model.atTime(row, time);
    if (place >= 0 && model.end(row[place]) + slack >= time) return row[place];
    return place + 1 < row.length && model.start[row[place + 1]] - slack <= time ? row[place + 1] : -1;
  }

  // Drawing

  draw() {
    if (this.foldedAs !== this.model.folded) {
      this.foldedAs = this.model.folded;
      this.unfold.querySelector("input").checked = !this.foldedAs;
      this.lanes = this.layLanes();
    }
    if (this.waiting || !this.root.isConnected) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      if (this.root.isConnected) this.paint();
    });
  }

  paint() {
    const context = this.surface.begin();
    const { width, height } = this.surface.size;
    const { theme } = this.surface;
    context.save();
    context.beginPath();
    context.rect(0, this.lanes.fixed, width, height - this.lanes.fixed);
    context.clip();
    this.paintGrid(context, this.lanes.fixed, height);
    for (const track of this.lanes.tracks) this.paintTrack(context, track);
    this.paintArrows(context);
    context.restore();
    this.paintRuler(context);
    if (this.lanes.steps >= 0) this.paintSteps(context);
    if (this.lanes.memory >= 0) this.paintMemory(context);
    context.fillStyle = theme.line;
    context.fillRect(0, this.lanes.fixed - 1, width, 1);
    this.paintScrollbar(context);
    if (this.marked) this.paintMarked(context);
    this.canvas.dataset.span = this.model.span;
    this.canvas.dataset.from = Math.round(this.from);
    this.canvas.dataset.to = Math.round(this.to);
    this.canvas.dataset.top = Math.round(this.top);
    this.canvas.dataset.lanes = this.lanes.tracks.map(({ name }) => name).join("|");
    this.canvas.dataset.bottom = Math.round(this.lanes.fixed + this.lanes.height);
  }

  tickStep() {
    return roundStep(((this.to - this.from) / this.surface.size.width) * 110);
  }

  ticks() {
    const step = this.tickStep();
    const marks = [];
    for (let time = Math.ceil(this.from / step) * step; time <= this.to; time += step) if (time >= 0) marks.push(time);
    return marks;
  }

  paintGrid(context, top, bottom) {
    context.fillStyle = this.surface.theme.line;
    context.globalAlpha = 0.5;
    for (const time of this.ticks()) context.fillRect(Math.round(this.x(time)), top, 1, bottom - top);
    context.globalAlpha = 1;
  }

  paintRuler(context) {
    context.fillStyle = this.surface.theme.muted;
    const step = this.tickStep();
    const texts = this.ticks().map((time) => {
      const x = Math.round(this.x(time));
      const text = formatMoment(Math.round(time), step, this.to);
      context.fillRect(x, RULER - 6, 1, 6);
      this.surface.text(text, x + 4, RULER / 2, 108);
      return text;
    });
    this.canvas.dataset.ticks = texts.join("|");
  }

  paintSteps(context) {
    const { events, labels } = this.model.header.steps;
    const { theme } = this.surface;
    events.forEach((event, number) => {
      const x = this.x(this.model.start[event]), width = this.model.length[event] * this.scale;
      if (x + width < 0 || x > this.surface.size.width) return;
      context.fillStyle = theme.sorts.step[number % 2 ? 1 : 3];
      context.fillRect(x, this.lanes.steps + 1, Math.max(width - 1, 0.5), STEP_LANE - 4);
      context.fillStyle = theme.onBar;
      const left = Math.max(x, 0);
      const room = Math.min(x + width, this.surface.size.width) - left - 8;
      this.surface.text(labels[number], left + 5, this.lanes.steps + STEP_LANE / 2 - 1, room, stepNumber(labels[number]));
    });
  }

  paintMemory(context) {
    const times = this.model.memory_time, values = this.totals();
    const bottom = this.lanes.memory + MEMORY_LANE - 3, room = MEMORY_LANE - 10;
    const { theme } = this.surface;
    const first = Math.max(0, lowerBound(times, this.from) - 1);
    context.beginPath();
    context.moveTo(0, bottom);
    let level = first < values.length && times[first] <= this.from ? values[first] : 0;
    context.lineTo(0, bottom - (level / this.highest) * room);
    let column = -1, best = 0, last = 0;
    for (let i = first; i < times.length && times[i] <= this.to; i++) {
      const x = this.x(times[i]);
      // Of the instants that fall on one pixel the highest is drawn.
      if (Math.floor(x) === column && values[i] <= best) {
        level = values[i];
        continue;
      }
      best = Math.floor(x) === column ? Math.max(best, values[i]) : values[i];
      column = Math.floor(x);
      context.lineTo(last, bottom - (level / this.highest) * room);
      context.lineTo(x, bottom - (level / this.highest) * room);
      last = x;
      level = values[i];
      context.lineTo(x, bottom - (level / this.highest) * room);
    }
    const finish = this.x(Math.min(this.to, this.model.span));
    context.lineTo(last, bottom - (level / this.highest) * room);
    context.lineTo(finish, bottom - (level / this.highest) * room);
    context.lineTo(finish, bottom);
    context.closePath();
    context.fillStyle = theme.sorts.memory[3];
    context.globalAlpha = 0.55;
    context.fill();
    context.globalAlpha = 1;
    context.fillStyle = theme.muted;
    this.surface.text(`Memory, up to ${formatBytes(this.highest)}`, 6, this.lanes.memory + 9, 300);
  }

  totals() {
    if (!this.totalBytes) {
      const { memory_time: times, header } = this.model;
      this.totalBytes = new Float64Array(times.length);
      header.memory.categories.forEach((_, number) => {
        const values = this.model[`memory_${number}`];
        for (let i = 0; i < times.length; i++) this.totalBytes[i] += values[i];
      });
      this.highest = this.totalBytes.reduce((high, value) => Math.max(high, value), 1);
    }
    return this.totalBytes;
  }

  paintTrack(context, track) {
    const y = this.lanes.fixed + track.y - this.top;
    const { theme, size } = this.surface;
    if (y > size.height || y + track.height < this.lanes.fixed) return;
    context.fillStyle = theme.raised;
    context.fillRect(0, y, size.width, TRACK_HEAD - 3);
    context.fillStyle = theme.text;
    const mark = track.rows.length < track.total ? "▸" : "▾";
    this.surface.text(`${mark}  ${track.name}`, 6, y + (TRACK_HEAD - 3) / 2, size.width - 12);
    track.rows.forEach((row, depth) => {
      const top = y + TRACK_HEAD + depth * ROW;
      if (top + ROW > this.lanes.fixed && top < size.height) this.paintRow(context, row, top);
    });
  }

  paintRow(context, row, top) {
    const { model, scale, from, to, matches } = this;
    const { theme, size } = this.surface;
    let drawn = -1;
    for (let place = Math.max(0, model.atTime(row, from)); place < row.length; place++) {
      const event = row[place], start = model.start[event];
      if (start > to) break;
      const left = (start - from) * scale, width = model.length[event] * scale;
      const right = left + Math.max(width, 1);
      const chosen = event === this.selected || event === this.hovered;
      if (right < 0 || (right <= drawn + 0.6 && !chosen)) continue;
      const kind = model.kinds[model.kind[event]];
      const gap = width > 4 ? 0.75 : 0;
      const x = Math.max(left, -2), w = Math.min(right, size.width + 2) - x - gap;
      context.globalAlpha = matches && !matches[model.kind[event]] ? 0.18 : 1;
      context.fillStyle = shadeOf(theme, kind);
      context.fillRect(x, top, Math.max(w, 0.6), ROW - 2);
      drawn = right;
      if (w > 26) {
        context.fillStyle = theme.onBar;
        const tiny = kind.sort === "step" ? stepNumber(kind.name) : undefined;
        this.surface.text(kind.short, Math.max(x, 0) + 4, top + ROW / 2 - 1, w - 6 + Math.min(x, 0), tiny);
      }
      if (chosen) this.outline(context, x, top, w, event === this.selected);
    }
    context.globalAlpha = 1;
  }

  outline(context, x, top, width, strong) {
    context.globalAlpha = 1;
    context.strokeStyle = this.surface.theme.text;
    context.lineWidth = strong ? 2 : 1;
    context.strokeRect(x + 0.5, top + 0.5, Math.max(width - 1, 1), ROW - 3);
  }

  spot(event) {
    const track = this.lanes.tracks.find(({ number }) => number === this.model.track[event]);
    if (!track || track.rows.length <= this.model.level[event] || this.model.hidden[event]) return null;
    return this.lanes.fixed + track.y - this.top + TRACK_HEAD + this.model.level[event] * ROW + ROW / 2;
  }

  paintArrows(context) {
    const { forward, backward, launch, launched } = this.model;
    context.strokeStyle = this.surface.theme.accent;
    this.paintPairs(context, forward, backward, this.arrows, (event) => this.model.end(event));
    this.paintPairs(context, launch, launched, this.launchArrows, (event) => this.model.start[event]);
    context.globalAlpha = 1;
  }

  // Arrows between pairs of events: those of the chosen event, and all in sight if they are wanted.
  paintPairs(context, first, second, wanted, leaves) {
    let drawn = 0;
    for (let i = 0; i < first.length && drawn < MOST_ARROWS; i++) {
      const mine = first[i] === this.selected || second[i] === this.selected;
      if (!mine && !wanted) continue;
      if (this.model.end(first[i]) < this.from && !mine) continue;
      if (this.model.start[second[i]] > this.to && !mine) continue;
      context.globalAlpha = mine ? 1 : 0.35;
      context.lineWidth = mine ? 2 : 1;
      drawn += this.paintArrow(context, first[i], second[i], leaves(first[i]));
    }
  }

  paintArrow(context, first, second, leaves) {
    const [y0, y1] = [this.spot(first), this.spot(second)];
    if (y0 === null || y1 === null) return 0;
    const x0 = this.x(leaves), x1 = this.x(this.model.start[second]);
    const bend = Math.min(120, Math.abs(x1 - x0) / 2 + 10);
    context.beginPath();
    context.moveTo(x0, y0);
    context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
    context.moveTo(x1 - 5, y1 - 4);
    context.lineTo(x1, y1);
    context.lineTo(x1 - 5, y1 + 4);
    context.stroke();
    return 1;
  }

  paintScrollbar(context) {
    const { width, height } = this.surface.size;
    const seen = height - this.lanes.fixed;
    if (this.lanes.height <= seen) return;
    context.fillStyle = this.surface.theme.muted;
    context.globalAlpha = 0.4;
    context.fillRect(width - 5, this.lanes.fixed + (this.top / this.lanes.height) * seen, 4, (seen / this.lanes.height) * seen);
    context.globalAlpha = 1;
  }

  paintMarked(context) {
    const [low, high] = [Math.min(...this.marked), Math.max(...this.marked)];
    const x = this.x(low), width = this.x(high) - x;
    context.fillStyle = this.surface.theme.accent;
    context.globalAlpha = 0.18;
    context.fillRect(x, 0, width, this.surface.size.height);
    context.globalAlpha = 1;
    this.surface.text(formatTime(Math.round(high - low)), x + 4, RULER / 2, 100);
  }
}

// The first place in sorted values that is not below one of them.
function lowerBound(values, wanted) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}
