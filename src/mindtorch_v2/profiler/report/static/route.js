// What is looked at, as the address has it: #timeline&event=12&from=0&to=5000&search=mm. Links and Back keep working.

function routeText(route) {
  const parts = [route.view];
  for (const key of ["event", "from", "to", "search", "mode"])
    if (route[key] !== undefined && route[key] !== "") parts.push(`${key}=${encodeURIComponent(route[key])}`);
  return "#" + parts.join("&");
}

function readRoute(text = location.hash) {
  const [view, ...rest] = text.replace(/^#/, "").split("&");
  const route = { view };
  for (const part of rest) {
    const [key, value = ""] = part.split("=");
    try {
      const plain = decodeURIComponent(value);
      if (key === "search" || key === "mode") route[key] = plain;
      else if (["event", "from", "to"].includes(key) && plain !== "" && Number.isFinite(Number(plain))) route[key] = Number(plain);
    } catch {
      continue; // a broken escape says nothing
    }
  }
  return route;
}

// Changes the address without a new entry in the history. A page inside a notebook may not, and goes without.
function writeRoute(route) {
  try {
    history.replaceState(null, "", routeText(route));
  } catch (error) {
    if (error.name !== "SecurityError") throw error;
  }
}

// A page inside a notebook has no address of its own: links in it would lead away, so it opens places itself.
const IS_INSIDE = location.protocol === "about:";
let openPlace = () => {};

function navigate(text) {
  if (IS_INSIDE) openPlace(readRoute(text));
  else location.hash = text;
}

function followLinks(open) {
  openPlace = open;
  addEventListener("hashchange", () => open(readRoute()));
  document.addEventListener("click", (click) => {
    const link = IS_INSIDE && click.target.closest('a[href^="#"]');
    if (!link || link.classList.contains("skip")) return;
    click.preventDefault();
    navigate(link.getAttribute("href"));
  });
}
