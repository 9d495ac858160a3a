"""What the first screen of a report tells: one sentence, the median step in parts, the phases of the run, hot code.

It puts into words and rows what `advise` has worked out; it does not judge.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..advise.findings import Finding, Run, spoken
from ..advise.parts import PARTS

_HOTTEST = 8
_WORDS = {
    "data": "waiting for data", "forward": "forward", "backward": "backward", "optimizer": "the optimizer",
    "python": "Python", "idle": "waiting",
}  # fmt: skip


def story(run: Run, found: list[Finding]) -> dict[str, Any]:
    """Everything of the first screen that events alone do not tell."""
    parts = run.parts
    step = parts.median_step()
    places = run.steps.places
    mine = np.zeros(max(len(run.metrics.capture.tracks), 1), bool)
    mine[parts.track] = True
    return {
        "headline": _headline(run, found),
        "parts": PARTS,
        "step": {
            "label": run.steps.labels(run.metrics)[step] if len(places) else "",
            "event": int(places[step]) if len(places) else -1,
            "parts": parts.by_step[step].tolist(),
        },
        "phases": [list(phase) for phase in parts.phases()],
        "lines": [[frame.text, own, total] for frame, own, total in run.code.hot_lines(mine)[:_HOTTEST]],
        "functions": [[frame.text, own, total] for frame, own, total in run.code.hot_functions(mine)[:_HOTTEST]],
    }


def _headline(run: Run, found: list[Finding]) -> str:
    """One sentence: how long a step takes, what of, and what to do first."""
    row = run.parts.by_step[run.parts.median_step()]
    whole = int(row.sum())
    if not len(run.metrics) or not whole:
        return "Nothing was recorded."
    largest = [number for number in np.argsort(-row).tolist() if row[number] >= 0.1 * whole][:3]
    made = ", ".join(f"{row[number] / whole:.0%} {_WORDS[PARTS[number]]}" for number in largest)
    steps = len(run.steps.places)
    what = (
        f"A step takes {spoken(whole)} in the median of {steps:,}" if steps else f"The recording lasts {spoken(whole)}"
    )
    best = next((finding for finding in found if finding.time_ns and finding.level != "low"), None)
    if best is None:
        return f"{what} ({made}), and nothing in it stands out."
    where = f" at {best.spots[0].place}" if best.spots else ""
    return f"{what} ({made}); most could be saved{where}, up to {spoken(best.time_ns)} or {best.share:.0%}."
