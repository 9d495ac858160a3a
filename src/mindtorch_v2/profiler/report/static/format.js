// Numbers as people read them. Times come in nanoseconds.

function scaled(value, units) {
  const size = Math.abs(value);
  let chosen = units[0];
  for (const unit of units) if (size >= unit[0]) chosen = unit;
  const number = value / chosen[0];
  const digits = Math.abs(number) >= 100 ? 0 : Math.abs(number) >= 10 ? 1 : 2;
  return `${number.toFixed(chosen[0] === 1 && Number.isInteger(value) ? 0 : digits)} ${chosen[1]}`;
}

const TIME_UNITS = [[1, "ns"], [1e3, "µs"], [1e6, "ms"], [1e9, "s"]];
const BYTE_UNITS = [[1, "B"], [1024, "KB"], [1024 ** 2, "MB"], [1024 ** 3, "GB"]];
const FLOP_UNITS = [[1, "FLOP"], [1e3, "kFLOP"], [1e6, "MFLOP"], [1e9, "GFLOP"], [1e12, "TFLOP"]];

const formatTime = (ns) => (ns === 0 ? "0" : scaled(ns, TIME_UNITS));
// A moment among others: as many digits as tell it from one a step away, in the unit of the largest.
function formatMoment(ns, step, largest = ns) {
  if (ns === 0) return "0";
  const [size, unit] = TIME_UNITS.findLast(([size]) => Math.abs(largest) >= size) ?? TIME_UNITS[0];
  const digits = Math.max(0, Math.ceil(Math.log10(size / Math.max(step, 1)) - 1e-9));
  return `${(ns / size).toFixed(digits)} ${unit}`;
}

const formatBytes = (bytes) => (bytes === 0 ? "0" : scaled(bytes, BYTE_UNITS));
const formatFlops = (flops) => (flops === 0 ? "" : scaled(flops, FLOP_UNITS));
const formatCount = (count) => count.toLocaleString("en");
const formatShare = (share) => (Number.isFinite(share) ? `${(share * 100).toFixed(share < 0.0995 ? 1 : 0)}%` : "");
const formatRatio = (ratio) => (ratio < 100 ? ratio.toFixed(2) : formatCount(Math.round(ratio)));
const signed = (format, value) => (value > 0 ? "+" : value < 0 ? "−" : "") + format(Math.abs(value));

// What is left of a step's name where there is no room: `#3`.
const stepNumber = (name) => /#\d+$/.exec(name)?.[0];

// A name as a bar has room for it: the function before its file, no prefixes that many share.
function shortName(name) {
  const frame = /^(?:.*[/\\])?([^/\\]+)\((\d+)\): (.+)$/.exec(name);
  if (frame) return `${frame[3]} · ${frame[1]}:${frame[2]}`;
  return name.replace("autograd::engine::evaluate_function: ", "evaluate ").replace("nn.Module: ", "");
}

function hashOf(text) {
  let hash = 2166136261;
  for (let i = 0; i < Math.min(text.length, 64); i++) hash = Math.imul(hash ^ text.charCodeAt(i), 16777619);
  return hash >>> 0;
}

// Rows of cells as CSV. Text that a spreadsheet would take for a formula is marked as text.
function asCsv(rows) {
  const cell = (value) => {
    let text = String(value);
    if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = "'" + text;
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}
