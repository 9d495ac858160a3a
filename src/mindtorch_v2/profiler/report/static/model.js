// The events and what follows from them: parents, children, self times, rows to draw. Knows nothing of the page.

class Model {
  constructor({ header, columns }) {
    this.header = header;
    Object.assign(this, columns);
    this.count = this.start.length;
    this.span = Math.max(1, header.end - header.begin);
    this.kinds = header.kinds.map(([name, label, sort, overload, path, folding = 0]) => ({
      name, label, short: shortName(name), sort: header.sorts[sort], overload, path, hash: hashOf(label),
      library: folding > 0, waits: folding === 2,
    }));
    this.calls = header.calls.map(([kind, shapes = "", types = "", values = "", flops = 0]) => ({
      kind, shapes, types, values, flops,
    }));
    const kindOf = Int32Array.from(this.calls, ({ kind }) => kind);
    this.kind = new Int32Array(this.count);
    for (let i = 0; i < this.count; i++) this.kind[i] = kindOf[this.call[i]];
    this.isPython = Uint8Array.from(this.kinds, ({ sort }) => sort === "python" || sort === "module");
    this.link();
    this.fold(this.kinds.some(({ library }) => library));
  }

  // With `folded`, functions of libraries, of imports and of the launcher are not shown: what they call moves up.
  fold(folded) {
    this.folded = folded;
    const { count, parent, kind, kinds } = this;
    this.hidden = new Uint8Array(count);
    this.level = new Int32Array(count);
    for (let i = 0; i < count; i++) {
      this.hidden[i] = folded && kinds[kind[i]].library ? 1 : 0;
      const outer = this.header.tracks[this.track[i]].device ? -1 : parent[i];
      this.level[i] = outer < 0 ? this.depth[i] : this.level[outer] + 1 - this.hidden[outer];
    }
    this.layRows();
  }

  // Events come in order of their start, outer before inner: the last one a level up is the one around.
  link() {
    const { count, depth, track, length } = this;
    this.parent = new Int32Array(count).fill(-1);
    this.selfTime = new Float64Array(length);
    const open = this.header.tracks.map(() => []);
    for (let i = 0; i < count; i++) {
      const levels = open[track[i]];
      levels[depth[i]] = i;
      if (depth[i] > 0) {
        const outer = (this.parent[i] = levels[depth[i] - 1]);
        this.selfTime[outer] = Math.max(0, this.selfTime[outer] - length[i]);
      }
    }
    this.partner = new Map();
    for (let i = 0; i < this.forward.length; i++) {
      if (!this.partner.has(this.forward[i])) this.partner.set(this.forward[i], this.backward[i]);
      this.partner.set(this.backward[i], this.forward[i]);
    }
    for (let i = 0; i < this.launch.length; i++) {
      if (!this.partner.has(this.launch[i])) this.partner.set(this.launch[i], this.launched[i]);
      this.partner.set(this.launched[i], this.launch[i]);
    }
  }

  // For each track and level the events there, in order of time.
  layRows() {
    const sizes = this.header.tracks.map(() => []);
    for (let i = 0; i < this.count; i++) {
      const levels = sizes[this.track[i]];
      if (!this.hidden[i]) levels[this.level[i]] = (levels[this.level[i]] || 0) + 1;
    }
    this.rows = sizes.map((levels) => Array.from(levels, (size) => new Int32Array(size || 0)));
    const filled = sizes.map((levels) => new Int32Array(levels.length));
    for (let i = 0; i < this.count; i++) {
      const [track, level] = [this.track[i], this.level[i]];
      if (!this.hidden[i]) this.rows[track][level][filled[track][level]++] = i;
    }
  }

  // Whether a frame of a stack is of the user's code.
  isUsers(frame) {
    this.foreign = this.foreign ?? new Set(this.header.libraries);
    return !this.foreign.has(frame.slice(0, frame.indexOf("(")));
  }

  name(event) {
    return this.kinds[this.kind[event]].name;
  }

  sort(event) {
    return this.kinds[this.kind[event]].sort;
  }

  end(event) {
    return this.start[event] + this.length[event];
  }

  children(event) {
    if (!this.childStart) this.indexChildren();
    return this.childList.subarray(this.childStart[event], this.childStart[event + 1]);
  }

  indexChildren() {
    this.childStart = new Int32Array(this.count + 1);
    for (let i = 0; i < this.count; i++) if (this.parent[i] >= 0) this.childStart[this.parent[i] + 1]++;
    for (let i = 0; i < this.count; i++) this.childStart[i + 1] += this.childStart[i];
    const next = this.childStart.slice();
    this.childList = new Int32Array(this.childStart[this.count]);
    for (let i = 0; i < this.count; i++) if (this.parent[i] >= 0) this.childList[next[this.parent[i]]++] = i;
  }

  // Self time and bytes when Python functions are not shown: they count for the event around them.
  get plain() {
    if (this.plainValues) return this.plainValues;
    const time = new Float64Array(this.length), bytes = new Float64Array(this.memory);
    const around = new Int32Array(this.count);
    for (let i = 0; i < this.count; i++) {
      const outer = this.parent[i];
      around[i] = outer >= 0 && this.isPython[this.kind[outer]] ? around[outer] : outer;
      if (this.isPython[this.kind[i]] || around[i] < 0) continue;
      time[around[i]] = Math.max(0, time[around[i]] - this.length[i]);
      bytes[around[i]] -= this.memory[i];
    }
    return (this.plainValues = { time, bytes });
  }

  get selfBytes() {
    if (this.selfBytesValues) return this.selfBytesValues;
    const bytes = new Float64Array(this.memory);
    for (let i = 0; i < this.count; i++) if (this.parent[i] >= 0) bytes[this.parent[i]] -= this.memory[i];
    return (this.selfBytesValues = bytes);
  }

  // The frames of an event's stack, innermost first.
  frames(node) {
    const found = [];
    for (; node > 0; node = this.header.stacks[node][0]) found.push(this.header.frames[this.header.stacks[node][1]]);
    return found;
  }

  stackOf(event) {
    const recorded = this.frames(this.stack[event]);
    if (recorded.length) return recorded;
    const found = [];
    for (let outer = this.parent[event]; outer >= 0; outer = this.parent[outer])
      if (this.isPython[this.kind[outer]]) found.push(this.name(outer));
    return found;
  }

  modulePath(event) {
    const [, name, path] = this.header.modules[this.module[event]];
    return path || name;
  }

  // The innermost event of a row at a time: the last one that has begun.
  atTime(row, time) {
    let low = 0, high = row.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.start[row[middle]] <= time) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }
}

// Events summed up by a key; `key(event)` gives a number or a text, undefined leaves the event out.
function sumUp(model, key, { time, bytes }, chosen = null) {
  const groups = new Map();
  const count = chosen ? chosen.length : model.count;
  for (let place = 0; place < count; place++) {
    const event = chosen ? chosen[place] : place;
    const found = key(event);
    if (found === undefined) continue;
    let row = groups.get(found);
    if (!row) groups.set(found, (row = { key: found, first: event, longest: event, calls: 0, self: 0, total: 0, bytes: 0, flops: 0 }));
    row.calls++;
    row.self += time[event];
    row.total += model.length[event];
    row.bytes += bytes[event];
    row.flops += model.calls[model.call[event]].flops;
    if (model.length[event] > model.length[row.longest]) row.longest = event;
  }
  return [...groups.values()];
}
