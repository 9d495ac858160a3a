// Elements. Text only ever becomes a text node, so no name in the data can be markup.

function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, setting] of Object.entries(value)) node.style.setProperty(key, setting);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

const button = (text, onclick, more = {}) => el("button", { type: "button", onclick, ...more }, text);

function chooser(label, options, chosen, onchange) {
  const select = el("select", { onchange: () => onchange(select.value) });
  for (const [value, text] of options) select.append(el("option", { value, selected: String(value) === String(chosen) }, text));
  return el("label", { class: "field" }, el("span", {}, label), select);
}

function checkbox(label, checked, onchange) {
  const box = el("input", { type: "checkbox", checked, onchange: () => onchange(box.checked) });
  return el("label", { class: "field" }, box, el("span", {}, label));
}

function announce(text) {
  document.getElementById("said").textContent = text;
}

// A place in the code, broken only where paths may break.
const place = (text) => el("code", { class: "place", title: text }, text);

const eventLink = (event, text, more = {}) =>
  el("a", { href: routeText({ view: "timeline", event }), ...more }, text);

function swatch(sort) {
  return el("i", { class: "swatch", style: { background: `hsl(var(--${sort}))` }, "aria-hidden": "true" });
}

function saveFile(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = el("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

const nothing = (...text) => el("p", { class: "hint" }, ...text);
