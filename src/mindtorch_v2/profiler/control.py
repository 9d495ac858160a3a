"""What a running program can be asked from outside: how it does, what is hot in it, to start and stop profiling.

Requests and answers are plain dicts. It does not know how they travel.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from .analyse.averages import Grouping
from .analyse.events import View
from .analyse.metrics import Metrics
from .analyse.samples import step_intervals
from .api import run
from .api.lists import averages_of_views
from .capture.capture import Capture
from .capture.window import Window
from .program import SPOOL, with_metadata, without_own_threads, write_files
from .record import endings, overhead
from .record.config import RecordOptions
from .record.recorder import RECORDER

_LONGEST_S = 60.0
_MOST_ROWS = 200


class _Attached:
    """The profile that was started from outside, at most one. Who starts or stops it holds the lock until its files are
    written."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.profile: run.profile | None = None
        self.folder = ""


_attached = _Attached()


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Do what a request asks for."""
    requested = request.get("do")
    if requested not in _ANSWERS:
        raise ValueError(f"cannot {requested!r}; known: {', '.join(_ANSWERS)}")
    return _ANSWERS[requested](request)


def _status(request: dict[str, Any]) -> dict[str, Any]:
    return {
        "pid": os.getpid(),
        "program": sys.argv,
        "recording": bool(RECORDER.sessions),
        "attached": _attached.profile is not None,
        "folder": _attached.folder,
    }


def _start(request: dict[str, Any]) -> dict[str, Any]:
    wanted: dict[str, Any] = {name: bool(value) for name, value in dict(request.get("options", {})).items()}
    folder = os.path.abspath(str(request["folder"]))
    with _attached.lock:
        if _attached.profile is not None:
            raise RuntimeError(f"is being profiled already, into {_attached.folder}; stop that first")
        os.makedirs(folder, exist_ok=True)
        started = run.profile(use_kineto=True, all_threads=True, spool=os.path.join(folder, SPOOL), **wanted)
        started._prepare_trace()
        started._start_trace()
        prices = overhead.prices(RecordOptions(bool(wanted.get("record_shapes")), bool(wanted.get("with_stack"))))
        started.metadata[overhead.METADATA] = json.dumps(prices._asdict())
        _attached.profile, _attached.folder = started, folder
    return {"folder": folder}


def _stop(request: dict[str, Any]) -> dict[str, Any]:
    with _attached.lock:
        return _stop_and_write()


def _stop_and_write() -> dict[str, Any]:
    stopped = _attached.profile
    if stopped is None:
        raise RuntimeError("is not being profiled from outside; start it with `mindtorch attach PID start`")
    _attached.profile = None
    stopped._stop_trace()
    capture = without_own_threads(with_metadata(stopped.newest_capture(), stopped.trace_id, stopped.metadata))
    files = write_files(capture, _attached.folder, os.path.basename(sys.argv[0]) or "program")
    return {"files": {**files, "spool": os.path.join(_attached.folder, SPOOL)}, "events": sum(map(len, capture.tracks))}


def finish() -> None:
    """The program ends: what is being profiled from outside is written all the same, and what is being written already
    is waited for."""
    with endings.interrupts_held("the profile is being written"), _attached.lock:
        if _attached.profile is not None:
            _stop_and_write()


def seconds_of(request: dict[str, Any]) -> float:
    return min(max(float(request.get("seconds", 1.0)), 0.01), _LONGEST_S)


def _hot(request: dict[str, Any]) -> dict[str, Any]:
    """The hottest ops of the seconds that follow: a short window of its own, beside any other."""
    seconds = seconds_of(request)
    was_recording = bool(RECORDER.sessions)
    window = Window(RecordOptions(all_threads=True))
    threading.Event().wait(seconds)
    recording = window.stop()
    capture = without_own_threads(recording.capture())
    return {
        "recording": was_recording,
        "seconds": (recording.stop_ns - recording.start_ns) / 1e9,
        **hot_rows(capture, request),
    }


def hot_rows(capture: Capture, request: dict[str, Any]) -> dict[str, Any]:
    """The hottest ops of a capture of this process, as many as a request asks for."""
    limit = min(int(request.get("limit", 20)), _MOST_ROWS)
    metrics = Metrics(capture)
    rows = averages_of_views([View(metrics, False)], Grouping(), False, False)
    rows.sort(key=lambda row: -row.self_cpu_time_total)
    return {
        "pid": os.getpid(),
        "program": sys.argv,
        "events": len(metrics),
        "steps": len(step_intervals(metrics)[0]),
        "rows": [
            {"name": row.key, "count": row.count, "self_us": row.self_cpu_time_total, "total_us": row.cpu_time_total}
            for row in rows[:limit]
        ],
    }


_ANSWERS: dict[Any, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "status": _status,
    "start": _start,
    "stop": _stop,
    "hot": _hot,
}
