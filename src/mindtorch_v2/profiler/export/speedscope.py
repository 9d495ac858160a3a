"""Speedscope's JSON: one profile a thread, each path of frames weighed by its own time."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ..analyse.metrics import Metrics
from ..capture.capture import Capture, Track
from .files import open_binary
from .paths import Paths, frame_of
from .texts import json_encoder

_json = json_encoder(separators=(",", ":"))
_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def write_speedscope(capture: Capture, path: str | os.PathLike[str]) -> None:
    """Write a capture for speedscope.app."""
    paths = Paths(Metrics(capture))
    document = {
        "$schema": _SCHEMA,
        "exporter": "mindtorch_v2",
        "name": os.path.basename(os.fspath(path)),
        "activeProfileIndex": 0,
        "shared": {"frames": [_frame(name) for name in paths.frames]},
        "profiles": _profiles(paths, capture.tracks),
    }
    with open_binary(path) as file:
        file.write(_json(document).encode())


def _frame(name: str) -> dict[str, Any]:
    frame = frame_of(name)
    return {"name": frame.name, "file": frame.file, "line": frame.line} if frame.file else {"name": frame.name}


def _profiles(paths: Paths, tracks: list[Track]) -> list[dict[str, Any]]:
    """One for each thread that did anything; speedscope wants at least one."""
    found = [_profile(paths, number, track) for number, track in enumerate(tracks)]
    return [profile for profile in found if profile["samples"]] or found[:1]


def _profile(paths: Paths, number: int, track: Track) -> dict[str, Any]:
    mine = np.flatnonzero((paths.track == number) & (paths.self_ns > 0))
    weights = paths.self_ns[mine].tolist()
    return {
        "type": "sampled",
        "name": f"{track.name} ({track.native_id})",
        "unit": "nanoseconds",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": [paths.frames_of(path) for path in paths.path[mine].tolist()],
        "weights": weights,
    }
