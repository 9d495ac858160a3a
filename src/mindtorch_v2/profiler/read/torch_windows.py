"""Windows of a program on real torch, as torch's profiler wrote them, made into one capture.

Calls of modules are annotations in these files, whose names say where the module sits (`annotation`). It knows nothing of
how they were recorded.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..analyse.merge import joined
from ..capture.capture import PYTHON_FUNCTION, STEP_PREFIX, Capture, Kind, Track
from ..record import step_clock
from .kineto import read_chrome

FOLDER = "windows"
_MODULE, _AT = "nn.Module: ", " @ "


def annotation(name: str, number: int, path: str) -> str:
    """What the call of a module is recorded as: `nn.Module: Linear_0 @ Net.first`."""
    return f"{_MODULE}{name}_{number}{_AT}{path}"


def files(folder: str | os.PathLike[str]) -> list[Path]:
    """The windows in a folder that `mindtorch profile --torch` writes to, in order. What is half written is not there."""
    return sorted(Path(folder, FOLDER).glob("[0-9]*.json"))


def read(paths: Sequence[Path]) -> Capture:
    """One capture of all windows."""
    captures = [without_unended_step(with_modules(read_chrome(path))) for path in paths]
    if len(captures) == 1:
        return captures[0]
    capture = joined(captures)
    between = f"{len(captures)} windows were recorded; what ran between them is not in here"
    return replace(capture, notes=[between, *capture.notes])


def with_modules(capture: Capture) -> Capture:
    """The capture with annotations of module calls as calls of modules. torch's own events of these calls, which it
    records with stacks and which do not say where a module sits, are left out then."""
    kinds = [capture.kinds[number] for number in range(len(capture.kinds))]
    found = {number: _module(kind) for number, kind in enumerate(kinds)}
    ours = {number for number, module in found.items() if module is not None}
    if not ours:
        return capture
    theirs = [number for number, kind in enumerate(kinds) if kind.module_id >= 0]
    tracks = [without_kinds(track, theirs) for track in capture.tracks]
    return replace(
        capture,
        options=replace(capture.options, modules=True),
        kinds=[found[number] or kind for number, kind in enumerate(kinds)],
        tracks=tracks,
    )


def without_unended_step(capture: Capture) -> Capture:
    """The capture without the step that was under way when its window ended: torch lets it end there."""
    made = {f"{STEP_PREFIX}{number}" for number in step_clock.stated(capture.metadata).get("step", ())}
    names = [capture.kinds[number].name for number in range(len(capture.kinds))]
    unmade = [number for number, name in enumerate(names) if name.startswith(STEP_PREFIX) and name not in made]
    return replace(capture, tracks=[without_kinds(track, unmade) for track in capture.tracks]) if unmade else capture


def _module(kind: Kind) -> Kind | None:
    name, at, path = kind.name.partition(_AT)
    number = name.rpartition("_")[2]
    if kind.category == PYTHON_FUNCTION or not at or not name.startswith(_MODULE) or not number.isdecimal():
        return None
    return kind._replace(
        name=name, category=PYTHON_FUNCTION, module_id=int(number[:9]), path=path, flops=None, all_flops=None
    )


def without_kinds(track: Track, kinds: Sequence[int]) -> Track:
    """The track without regions of some kinds."""
    kept = ~np.isin(track.kind, kinds)
    columns = {name: getattr(track, name)[kept] for name in ("start_ns", "end_ns", "kind", "seq", "inputs", "stack")}
    return replace(track, **columns, link=None if track.link is None else track.link[kept])
