"""pprof's gzipped protocol buffers: paths of frames with their counts, own time and allocated bytes.

The numbers of fields are those of pprof's published `profile.proto`.
"""

from __future__ import annotations

import gzip
import os

from ...core.files import replaced
from ..analyse.metrics import Metrics
from ..capture.capture import Capture
from .paths import Paths, frame_of
from .protobuf import message, number, packed, text

# Fields of Profile.
_SAMPLE_TYPE, _SAMPLE, _LOCATION, _FUNCTION, _STRING = 1, 2, 4, 5, 6
_TIME, _DURATION, _PERIOD_TYPE, _PERIOD, _DEFAULT_TYPE = 9, 10, 11, 12, 14


class _Strings(dict[str, int]):
    """Texts by number; number 0 is the empty one."""

    def __missing__(self, key: str) -> int:
        self[key] = len(self)
        return self[key]


def write_pprof(capture: Capture, path: str | os.PathLike[str]) -> None:
    """Write a capture for `pprof`, which reads gzipped files only."""
    name = os.path.basename(os.fspath(path))
    data = encode(capture)
    with replaced(path) as file, gzip.GzipFile(name, "wb", 6, file) as compressed:
        compressed.write(data)


def encode(capture: Capture) -> bytes:
    """A Profile message."""
    paths = Paths(Metrics(capture))
    strings = _Strings({"": 0})
    types = [("samples", "count"), ("cpu", "nanoseconds"), ("alloc_space", "bytes")]
    encoded = [number(1, strings[name]) + number(2, strings[unit]) for name, unit in types]
    parts = [message(_SAMPLE_TYPE, pair) for pair in encoded]
    parts += _samples(capture, paths, strings)
    for place, name in enumerate(paths.frames, 1):
        frame = frame_of(name)
        line = message(4, number(1, place), number(2, frame.line))
        parts.append(message(_LOCATION, number(1, place), line))
        title = number(2, strings[frame.name]) + number(3, strings[name])
        parts.append(message(_FUNCTION, number(1, place), title, number(4, strings[frame.file]), number(5, frame.line)))
    parts += [
        number(_TIME, capture.epoch_ns),
        number(_DURATION, capture.stop_ns - capture.start_ns),
        message(_PERIOD_TYPE, encoded[1]),
        number(_PERIOD, 1),
        number(_DEFAULT_TYPE, strings["cpu"]),
    ]
    return b"".join([*parts, *(text(_STRING, value) for value in strings)])


def _samples(capture: Capture, paths: Paths, strings: _Strings) -> list[bytes]:
    columns = (paths.track, paths.path, paths.count, paths.self_ns, paths.allocated)
    found = []
    for track, path, *values in zip(*(column.tolist() for column in columns)):
        thread = capture.tracks[track]
        places = packed(1, [place + 1 for place in reversed(paths.frames_of(path))])
        label = message(3, number(1, strings["thread"]), number(2, strings[f"{thread.name} ({thread.native_id})"]))
        found.append(message(_SAMPLE, places, packed(2, values), label))
    return found
