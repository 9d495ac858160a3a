"""A finished report: how it is made from a capture, written to a file and shown in a notebook."""

from __future__ import annotations

import html
import os

from ...core.files import write_text
from ..capture.capture import Capture
from ..export.texts import writable
from .digest import Digest
from .page import render


class Report:
    """A finished report. Notebooks show it inline; `save` writes it to a file."""

    def __init__(self, page: str) -> None:
        self.html = page

    def save(self, path: str | os.PathLike[str]) -> None:
        write_text(path, writable(self.html))

    def _repr_html_(self) -> str:
        return (
            '<iframe title="Profile report" sandbox="allow-scripts allow-downloads allow-modals" '
            'style="width:100%;height:720px;border:1px solid #8884;border-radius:6px" '
            f'srcdoc="{html.escape(self.html)}"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<Report of {len(self.html):,} characters: save(path) writes it, a notebook shows it>"


def make_report(
    capture: Capture,
    *,
    before: Capture | None = None,
    title: str | None = None,
) -> Report:
    """The report of a capture; with `before`, another capture, it also shows what has changed since."""
    name = title or f"Profile of {capture.process_name or 'a program'}"
    return Report(render(name, Digest(capture, before).packed(name)))


def write_report(
    capture: Capture,
    path: str | os.PathLike[str],
    *,
    before: Capture | None = None,
    title: str | None = None,
) -> None:
    """Write the report of a capture to one HTML file."""
    make_report(capture, before=before, title=title).save(path)
