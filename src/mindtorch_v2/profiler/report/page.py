"""One HTML file from the packed data and the files of `static`: scripts and styles inline, nothing from elsewhere.

It knows how a page is put together, not what it shows.
"""

from __future__ import annotations

import base64
import hashlib
import html
from pathlib import Path

# In the order in which they stand in the page; a script uses names of earlier ones at any time, of later ones when run.
SCRIPTS = (
    "format", "page", "data", "model", "route", "details", "canvas", "timeline", "timeline_input", "grid",
    "overview", "flame", "operators", "modules", "memory", "steps", "devices", "diff", "app",
)  # fmt: skip
STYLES = ("style", "views", "print")


def static(name: str) -> str:
    """The text of a file of this package's `static` folder."""
    return (Path(__file__).parent / "static" / name).read_text(encoding="utf-8")


def render(title: str, packed: str) -> str:
    """The page. Its policy lets only its own script and styles run, whatever names the data holds."""
    script = "\n" + "\n".join(static(f"{name}.js") for name in SCRIPTS)
    style = "\n" + "\n".join(static(f"{name}.css") for name in STYLES)
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    values = {"policy": policy, "title": html.escape(title), "style": style, "data": packed, "script": script}
    parts, rest = [], static("page.html")
    for name, value in values.items():
        # Filled from the front on, so that no value is searched for the next place.
        before, _, rest = rest.partition("{{" + name + "}}")
        parts += [before, value]
    return "".join([*parts, rest])


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii") + "'"
