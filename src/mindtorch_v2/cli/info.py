"""Say what is in a file.

examples:
  mindtorch info trace.json
  mindtorch info capture.mtspool --json
"""

from __future__ import annotations

import argparse
import datetime
import os
from typing import Any

import numpy as np

from ..profiler.advise.origins import script_of
from ..profiler.advise.steps import find_steps
from ..profiler.analyse.metrics import Metrics
from ..profiler.analyse.units import format_time
from ..profiler.capture.capture import Capture, Track
from ..profiler.export.texts import json_encoder, json_text
from .files import STDIN, read_capture
from .table import rows_of, timed_in
from .terminal import cut, visible

_HOTTEST = 3
_json = json_encoder(indent=1, default=str)
_LONGEST = 200


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a trace, a spool, a folder, or - for stdin")
    parser.add_argument("--json", action="store_true", help="write JSON")


def run(options: argparse.Namespace) -> int:
    facts = facts_of(read_capture(options.file), options.file)
    if options.json:
        print(_json(facts))
        return 0
    width = max(map(len, facts))
    for name, value in facts.items():
        shown = value if isinstance(value, list) else [value]
        for line in shown or ["none"]:
            print(f"{name:<{width}}  {cut(visible(str(line)), _LONGEST)}")
            name = ""
    return 0


def facts_of(capture: Capture, path: str) -> dict[str, Any]:
    """What there is to say of a capture, by name."""
    metrics = Metrics(capture)
    steps = find_steps(metrics).places
    length_us = (capture.stop_ns - capture.start_ns) / 1000
    processes = {track.pid or capture.pid for track in capture.tracks}
    facts: dict[str, Any] = {"file": "stdin" if path == STDIN else path}
    if os.path.isfile(path):
        facts["bytes"] = os.path.getsize(path)
    facts["timed"] = timed_in(capture)
    facts["program"] = script_of(capture.metadata) or capture.process_name or "unknown"
    facts["began"] = datetime.datetime.fromtimestamp(capture.epoch_ns / 1e9, datetime.timezone.utc).isoformat()
    facts["length"] = format_time(length_us)
    facts["events"] = sum(map(len, capture.tracks))
    facts["memory events"] = sum(len(track.nbytes) for track in capture.tracks)
    facts["processes"] = len(processes)
    facts["threads"] = [_thread(track, capture.process_name, len(processes) > 1) for track in capture.tracks]
    facts["steps"] = len(steps)
    if len(steps):
        facts["typical step"] = format_time(float(np.median(metrics.total_ns[steps])) / 1000)
    facts["recorded"] = [name for name, value in vars(capture.options).items() if value is True] or ["names and times"]
    facts["hottest"] = _hottest(capture)
    facts["metadata"] = [f"{key}: {json_text(value)[:_LONGEST]}" for key, value in capture.metadata.items()]
    facts["notes"] = list(capture.notes)
    return facts


def _thread(track: Track, main: str, several: bool) -> str:
    """A thread with its process, if there are several."""
    process = f"{track.process_name or (track.pid if track.pid else main)}: " if several else ""
    return f"{process}{track.name or track.native_id} ({counted(len(track), 'event')})"


def counted(number: int, thing: str) -> str:
    """`1 call`, `2,000 calls`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _hottest(capture: Capture) -> list[str]:
    rows = sorted(rows_of(capture), key=lambda row: -row.self_cpu_time_total)[:_HOTTEST]
    return [f"{row.key}: {format_time(row.self_cpu_time_total)} in {counted(row.count, 'call')}" for row in rows]
