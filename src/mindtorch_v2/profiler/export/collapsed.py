"""Collapsed stacks: `frame;frame;frame N`, a line for each path of frames with its own time in microseconds."""

from __future__ import annotations

import os

from ..analyse.metrics import Metrics
from ..capture.capture import Capture
from .files import open_binary
from .paths import Paths
from .stacks import one_word
from .texts import encoded


def write_collapsed(capture: Capture, path: str | os.PathLike[str]) -> None:
    """Write a capture for flame graph tools; paths of different threads with the same frames are one line."""
    paths = Paths(Metrics(capture))
    totals: dict[int, int] = {}
    for number, self_ns in zip(paths.path.tolist(), paths.self_ns.tolist()):
        totals[number] = totals.get(number, 0) + self_ns
    frames = [one_word(name) for name in paths.frames]
    with open_binary(path) as file:
        for number, self_ns in totals.items():
            if weight := round(self_ns / 1000):
                words = ";".join(frames[place] for place in paths.frames_of(number))
                file.write(encoded(f"{words} {weight}\n"))
