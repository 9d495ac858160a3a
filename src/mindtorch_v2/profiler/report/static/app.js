// Puts the page together: tabs, theme, and the view that the address names.

const VIEWS = [
  ["overview", "Overview", (model) => ({ root: overview(model) })],
  ["devices", "Devices", (model) => new Devices(model)],
  ["timeline", "Timeline", (model, route) => new Timeline(model, route)],
  ["flame", "Flame graph", (model, route) => new Flame(model, route)],
  ["operators", "Operators", (model) => new Operators(model)],
  ["modules", "Modules", (model) => new Modules(model)],
  ["memory", "Memory", (model) => new Memory(model)],
  ["steps", "Steps", (model) => new Steps(model)],
  ["diff", "Diff", (model) => new Diff(model)],
];

class App {
  constructor(model) {
    this.model = model;
    this.views = new Map();
    this.shown = VIEWS.filter(([name]) => !["devices", "diff"].includes(name) || model.header[name]);
    this.tabs = document.getElementById("tabs");
    this.main = document.getElementById("view");
    const timed = el("small", { class: "timed", title: "The implementation of torch that ran" }, ` ${model.header.environment.Timed ?? ""}`);
    document.getElementById("title").append(model.header.title, timed);
    this.tabs.append(...this.shown.map(([name, title]) => el("a", {
      role: "tab", id: `tab-${name}`, href: `#${name}`, "aria-controls": "view", onkeydown: (press) => this.onTabKey(press),
    }, title)));
    this.main.setAttribute("role", "tabpanel");
    document.addEventListener("keydown", (press) => this.onKey(press));
    followLinks((route) => this.open(route));
    this.open(readRoute());
  }

  // Views are made when first opened and kept; the timeline also goes to the place in the address.
  open(route) {
    const [name, title, make] = this.shown.find(([known]) => known === route.view) ?? this.shown[0];
    const known = this.views.get(name);
    const view = known ?? make(this.model, route);
    this.views.set(name, view);
    for (const tab of this.tabs.children) {
      const mine = tab.id === `tab-${name}`;
      tab.setAttribute("aria-selected", String(mine));
      tab.tabIndex = mine ? 0 : -1;
      if (mine) this.tabs.scrollLeft = tab.offsetLeft - this.tabs.offsetLeft - (this.tabs.clientWidth - tab.offsetWidth) / 2;
    }
    this.main.setAttribute("aria-labelledby", `tab-${name}`);
    this.main.dataset.view = name;
    this.main.dataset.title = title;
    if (this.current !== view) this.main.replaceChildren(view.root);
    this.current = view;
    if (known?.follow) known.follow(route);
    view.draw?.();
    document.title = `${title} · ${this.model.header.title}`;
  }

  // Keys of the view work wherever the focus is, but where they have a meaning of their own.
  onKey(press) {
    if (press.defaultPrevented || press.ctrlKey || press.metaKey || press.altKey || !this.current?.key) return;
    const focused = press.target.closest?.("input, select, textarea, button, a, [role=treegrid]");
    if (focused && (focused.tagName !== "A" || ["Enter", " "].includes(press.key))) return;
    if (this.current.key(press)) press.preventDefault();
  }

  onTabKey(press) {
    const way = { ArrowRight: 1, ArrowLeft: -1 }[press.key];
    if (press.key === " ") press.target.click();
    else if (way) {
      const tabs = [...this.tabs.children];
      const next = tabs[(tabs.indexOf(press.target) + way + tabs.length) % tabs.length];
      next.click();
      next.focus();
    } else return;
    press.preventDefault();
  }
}

// Light or dark: what the system prefers until somebody chooses; kept where the browser lets a page keep things.
class Theme {
  constructor(onchange) {
    this.onchange = onchange;
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.button = document.getElementById("theme");
    this.button.addEventListener("click", () => this.set(this.isDark ? "light" : "dark"));
    this.dark.addEventListener("change", () => this.apply());
    addEventListener("beforeprint", () => this.print(true));
    addEventListener("afterprint", () => this.print(false));
    try {
      this.chosen = localStorage.getItem("mindtorch-report-theme");
    } catch {
      this.chosen = null; // a sandboxed page has no storage
    }
    this.apply();
  }

  get isDark() {
    return this.chosen ? this.chosen === "dark" : this.dark.matches;
  }

  set(theme) {
    this.chosen = theme;
    try {
      localStorage.setItem("mindtorch-report-theme", theme);
    } catch {
      // chosen for this visit only
    }
    this.apply();
  }

  // Paper is white, whatever the screen is.
  print(printing) {
    document.documentElement.dataset.theme = printing || !this.isDark ? "light" : "dark";
    this.onchange(printing);
  }

  apply() {
    document.documentElement.dataset.theme = this.isDark ? "dark" : "light";
    this.button.textContent = this.isDark ? "☀ Light" : "☾ Dark";
    this.onchange(false);
  }
}

async function start() {
  const main = document.getElementById("view");
  try {
    const model = new Model(await unpack(document.getElementById("data").textContent));
    let app = null;
    new Theme((now) => {
      const view = app?.current;
      if (now) (view?.paint ?? view?.draw)?.call(view);
      else view?.draw?.();
    });
    app = new App(model);
    document.documentElement.dataset.ready = Math.round(performance.now());
  } catch (error) {
    main.replaceChildren(nothing(`This report cannot be shown: ${error.message}. It needs a browser of 2023 or later.`));
    throw error;
  }
}

start();
