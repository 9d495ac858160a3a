// Drawing surfaces: sharp at any pixel ratio, in the colours of the theme.

class Surface {
  constructor(canvas, height = null) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.height = height;
    this.widths = new Map();
  }

  // Fits the canvas to its place in the page and clears it.
  begin() {
    const box = this.canvas.getBoundingClientRect();
    const ratio = window.devicePixelRatio || 1;
    const width = Math.max(1, Math.round(box.width)), height = Math.max(1, Math.round(this.height ?? box.height));
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
    }
    this.size = { width, height };
    this.theme = readTheme();
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.clearRect(0, 0, width, height);
    this.context.font = FONT;
    this.context.textBaseline = "middle";
    return this.context;
  }

  // Text cut to a width, or a shorter one where it is given; drawn not at all where nothing of it would be read.
  text(text, x, y, width, shorter) {
    if (width < 12) return;
    if (text.length > 120) text = text.slice(0, 120) + "…";
    let full = this.widthOf(text);
    if (full > width && shorter) full = this.widthOf((text = shorter));
    if (full > width) {
      const kept = Math.floor((text.length * (width - 10)) / full) - 1;
      if (kept < 2) return;
      text = text.slice(0, kept) + "…";
    }
    this.context.fillText(text, x, y);
  }

  widthOf(text) {
    let width = this.widths.get(text);
    if (width === undefined) this.widths.set(text, (width = this.context.measureText(text).width));
    return width;
  }
}

const FONT = "11px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
const SHADES = 5;

function readTheme() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(`--${name}`).trim();
  const sorts = {};
  for (const sort of ["op", "backward", "annotation", "step", "module", "python", "memory", "device"]) {
    const [hue, saturation, lightness] = read(sort).split(/\s+/).map(parseFloat);
    sorts[sort] = Array.from({ length: SHADES }, (_, shade) => `hsl(${hue} ${saturation}% ${lightness + (shade - 2) * 3}%)`);
  }
  return {
    sorts, text: read("text"), muted: read("muted"), line: read("line"), surface: read("surface"), raised: read("raised"),
    onBar: read("on-bar"), accent: read("accent"), scale: [0, 1, 2, 3, 4, 5, 6, 7].map((i) => `hsl(${read(`series-${i}`)})`),
  };
}

const shadeOf = (theme, kind) => theme.sorts[kind.sort][kind.hash % SHADES];

// Round distances between marks: 1, 2 or 5 times a power of ten.
function roundStep(rough) {
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1e-9)));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough);
}

function onResize(node, action) {
  let waiting = false;
  const observer = new ResizeObserver(() => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      if (node.isConnected) action();
    });
  });
  observer.observe(node);
}
