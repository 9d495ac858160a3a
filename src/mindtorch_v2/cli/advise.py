"""Say what could be saved: where the program loses time, and what to do about it.

FILE is a trace of torch or of this package, a spool, a folder that `mindtorch profile` wrote, or - for stdin. Findings
are ranked by what could be saved, in time and as a share of all steps (of the run, where it has none, and for start-up);
what is below half a percent is left out. Places are lines that ran
(`train.py:12 in step`) where stacks were recorded, else functions, with the line where they begin.

examples:
  mindtorch advise train.profile
  mindtorch advise trace.json.gz --json
  mindtorch advise train.profile --markdown >> review.md
"""

from __future__ import annotations

import argparse
import textwrap
from typing import Any

from ..profiler.advise.findings import HIGH, LOW, MEDIUM, Finding, spoken
from ..profiler.advise.places import Spot
from ..profiler.advise.rules import advise
from ..profiler.capture.capture import Capture
from ..profiler.export.texts import json_encoder
from .files import read_capture
from .reporters.table import code
from .terminal import BOLD, DIM, RED, YELLOW, cut, paint, visible, width_of_terminal

_json = json_encoder(indent=1, default=str)
_COLOURS = {HIGH: RED, MEDIUM: YELLOW, LOW: DIM}
# In the terminal at the end of a profile: so many at most, and those of little weight where there are fewer than this.
MOST, FEWEST = 5, 3
_WIDTH, _PLACES = 100, 3


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a trace, a spool, a folder, or - for stdin")
    parser.add_argument("--limit", type=int, default=None, metavar="N", help="findings shown (all)")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", dest="format", action="store_const", const="json", help="write JSON")
    output.add_argument("--markdown", dest="format", action="store_const", const="markdown", help="write Markdown")
    parser.set_defaults(format="text")


def run(options: argparse.Namespace) -> int:
    found = advise(read_capture(options.file))[: options.limit]
    print({"text": text, "json": as_json, "markdown": markdown}[options.format](found), end="")
    return 0


def of_profile(capture: Capture) -> str:
    """What the end of a profile says."""
    found = advise(capture)
    heavy = [finding for finding in found if finding.level != LOW]
    return text(found[: max(len(heavy), FEWEST)][:MOST])


def text(found: list[Finding]) -> str:
    """Findings for people at a terminal."""
    if not found:
        return "Nothing stands out: no finding could save half a percent of the run.\n"
    width = min(width_of_terminal() or _WIDTH, _WIDTH)
    lines = [paint("What could be saved, most first:", BOLD)]
    for number, finding in enumerate(found, 1):
        head = f"{number}. {paint(finding.level, _COLOURS[finding.level])}"
        places = ", ".join(visible(spot.place) for spot in finding.spots[:_PLACES])
        lines.append(f"{head}: {_saving(finding)}{', at ' + cut(places, 200) if places else ''}")
        for paragraph in (finding.title, finding.advice):
            lines += textwrap.wrap(visible(paragraph), width, initial_indent="   ", subsequent_indent="   ")
    return "\n".join(lines) + "\n"


def _saving(finding: Finding) -> str:
    if not finding.time_ns:
        return "worth knowing"
    return f"up to {spoken(finding.time_ns)}, {finding.share:.1%}"


def as_dict(finding: Finding) -> dict[str, Any]:
    row = finding._asdict()
    row["saving"] = {"ns": row.pop("time_ns"), "share": round(row.pop("share"), 4)}
    row["places"] = [_place(spot) for spot in row.pop("spots")]
    return row


def _place(spot: Spot) -> dict[str, Any]:
    at = f"{spot.file}:{spot.line}" if spot.file else spot.place
    return {"place": at, "text": spot.place, "function": spot.function, "calls": spot.calls, "ns": spot.time_ns}


def as_json(found: list[Finding]) -> str:
    return _json([as_dict(finding) for finding in found]) + "\n"


def markdown(found: list[Finding]) -> str:
    if not found:
        return "Nothing stands out.\n"
    lines = []
    for number, finding in enumerate(found, 1):
        places = ", ".join(code(spot.place) for spot in finding.spots[:_PLACES])
        where = f", at {places}" if places else ""
        lines.append(f"{number}. **{finding.level}**: {_saving(finding)}{where}  \n   {_plain(finding.title)}.")
        lines.append(f"   {_plain(finding.advice)}" if finding.advice else "")
    return "\n".join(line for line in lines if line) + "\n"


def _plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>|#" else letter for letter in visible(text))
