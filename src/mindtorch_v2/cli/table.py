"""Show where the time went, as a table.

FILE is a trace of torch or of this package, a spool, a folder that `mindtorch profile` wrote, or - for stdin.
Names given to --filter and --module are regular expressions; a module matches with everything inside it, its
backward included.

examples:
  mindtorch table trace.json
  mindtorch table trace.json --sort total --limit 20
  mindtorch table trace.json --by shape --filter 'addmm|conv'
  mindtorch table trace.json --by module
  mindtorch table trace.json --module 'blocks\\.0' --csv > block.csv
  zcat trace.json.gz | mindtorch table - --markdown
"""

from __future__ import annotations

import argparse
import re
from dataclasses import replace

import numpy as np

from ..profiler.analyse.averages import FunctionEventAvg, Grouping
from ..profiler.analyse.events import View
from ..profiler.analyse.metrics import Metrics
from ..profiler.analyse.modules import OUTSIDE, Modules
from ..profiler.api.lists import EventList, averages_of_views
from ..profiler.capture.capture import Capture, Kinds
from ..profiler.record.environment import implementation_of
from .files import read_capture
from .reporters.table import FORMATS
from .terminal import UserError, add_formats, say, visible

SORTS = {
    "self": "self_cpu_time_total",
    "total": "cpu_time_total",
    "avg": "cpu_time",
    "calls": "count",
    "memory": "self_cpu_memory_usage",
    "flops": "flops",
    "device": "self_device_time_total",
    "name": "key",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a trace, a spool, a folder, or - for stdin")
    parser.add_argument(
        "--by", default="op", choices=("op", "shape", "stack", "module", "overload"), help="what a row is (op)"
    )
    parser.add_argument("--stack-depth", type=int, default=5, metavar="N", help="frames that tell rows apart (5)")
    parser.add_argument("--sort", default="self", choices=SORTS, help="largest first by this (self)")
    parser.add_argument("--limit", type=int, default=None, metavar="N", help="rows shown (100; all for data formats)")
    parser.add_argument("--filter", type=_pattern, metavar="NAME", help="only rows whose name matches")
    parser.add_argument("--module", type=_pattern, metavar="NAME", help="only what runs in modules that match")
    parser.add_argument("--python", action="store_true", help="rows for Python functions too")
    parser.add_argument("--unit", choices=("s", "ms", "us"), help="one unit for all times")
    parser.add_argument("--wide", action="store_true", help="do not cut long names")
    add_formats(parser, FORMATS)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a regular expression: {error}") from error


def run(options: argparse.Namespace) -> int:
    capture = read_capture(options.file)
    if options.module is not None:
        capture = inside_modules(capture, options.module)
    whole = rows_of(capture, options.by, options.stack_depth, options.python)
    wanted = [row for row in whole if options.filter is None or options.filter.search(row.key)]
    if not wanted:
        _explain_nothing(options, sum(map(len, capture.tracks)))
    if options.sort == "name":
        wanted.sort(key=lambda row: row.key)
    else:
        wanted.sort(key=lambda row: getattr(row, SORTS[options.sort]) or 0, reverse=True)
    print(FORMATS[options.format](whole._like(wanted), options, whole), end="")
    if options.format == "text":
        print(f"Timed: {timed_in(capture)}")
    else:
        say(f"timed: {timed_in(capture)}")
    return 0


def timed_in(capture: Capture) -> str:
    """Which torch a capture has timed."""
    return visible(implementation_of(capture.metadata, isinstance(capture.kinds, Kinds)))


def _explain_nothing(options: argparse.Namespace, events: int) -> None:
    if options.filter is not None or options.module is not None:
        say("no row matches; try the command without --filter and --module")
    elif events:
        say(f"the capture holds {events:,} events, but no operators; --python shows Python functions")
    else:
        say("the capture holds no events")


def rows_of(capture: Capture, by: str = "op", stack_depth: int = 5, python: bool = False) -> EventList:
    """The capture's events summed up by what `by` names."""
    if by == "module":
        return _module_rows(capture)
    if by == "shape" and not capture.options.shapes:
        say("no shapes in this capture; record it with --shapes (record_shapes=True)")
    if by == "stack" and not any(track.stack.any() for track in capture.tracks):
        say("no stacks in this capture; record it with --stacks (with_stack=True)")
    grouping = Grouping(by == "shape", stack_depth if by == "stack" else 0, by == "overload", python)
    view = View(Metrics(capture), False)
    return averages_of_views([view], grouping, capture.options.memory, capture.options.flops)


def _module_rows(capture: Capture) -> EventList:
    """A row a module: how often it was called, what it took with everything inside it, forward and backward, and what
    of that no module inside it took."""
    metrics = Metrics(capture)
    modules = Modules(metrics)
    if not modules.calls.any():
        raise UserError("no module calls in this capture; record it with `mindtorch profile` or with_modules=True")
    plain = ~modules.calls & ~metrics.is_mark
    count = len(modules.names)
    path = modules.path

    def sums(values: np.ndarray, kept: np.ndarray) -> np.ndarray:
        return np.bincount(path[kept], weights=values[kept], minlength=count)

    outermost = plain & ~_has_plain_parent(metrics, plain)
    figures = {
        "count": np.bincount(path[modules.calls], minlength=count).tolist(),
        "self_cpu_time_total": (sums(metrics.self_ns, np.ones(len(metrics), bool)) / 1000).tolist(),
        "self_cpu_memory_usage": sums(metrics.self_memory, plain).astype(int).tolist(),
        "flops": sums(metrics.flops, plain).astype(int).tolist(),
        "all_flops": sums(metrics.all_flops, plain).astype(int).tolist(),
    }
    inside = [_inside(modules.names, name) for name in modules.names]
    totals = np.array(figures["self_cpu_time_total"])
    memory = np.array(figures["self_cpu_memory_usage"])
    rows = []
    for number, name in enumerate(modules.names):
        row = FunctionEventAvg()
        row.__dict__.update({field: values[number] for field, values in figures.items()})
        row.key, row.node_id, row.is_user_annotation = name, -1, False
        row.count = row.count or int(outermost[path == number].sum())
        row.cpu_time_total = float(totals[inside[number]].sum())
        row.cpu_memory_usage = int(memory[inside[number]].sum())
        row.input_shapes, row.stack, row.overload_name = "", [], ""
        rows.append(row)
    return EventList(
        [row for row in rows if row.count], profile_memory=capture.options.memory, with_flops=capture.options.flops
    )


def _has_plain_parent(metrics: Metrics, plain: np.ndarray) -> np.ndarray:
    around: np.ndarray = (metrics.parent >= 0) & plain[np.maximum(metrics.parent, 0)]
    return around


def _inside(names: list[str], outer: str) -> list[int]:
    """Numbers of the modules inside a module, itself included."""
    if outer == OUTSIDE:
        return [names.index(outer)]
    return [number for number, name in enumerate(names) if name == outer or name.startswith(f"{outer}.")]


def inside_modules(capture: Capture, pattern: re.Pattern[str]) -> Capture:
    """The part of a capture that ran in modules whose path matches, backward included."""
    metrics = Metrics(capture)
    modules = Modules(metrics)
    if not modules.calls.any():
        raise UserError("no module calls in this capture; record it with `mindtorch profile` or with_modules=True")
    matching = np.array([name != OUTSIDE and pattern.search(name) is not None for name in modules.names])
    chosen = matching[modules.path]
    tracks = []
    for number, track in enumerate(capture.tracks):
        mine = np.flatnonzero(chosen & (metrics.track == number) & ~metrics.is_mark)
        starts, reach = metrics.start_ns[mine], np.maximum.accumulate(metrics.end_ns[mine])
        kept, freed = (
            _covered(begin, end, starts, reach)
            for begin, end in ((track.start_ns, track.end_ns), (track.memory_ns, track.memory_ns))
        )
        tracks.append(
            replace(
                track,
                start_ns=track.start_ns[kept],
                end_ns=track.end_ns[kept],
                kind=track.kind[kept],
                seq=track.seq[kept],
                inputs=track.inputs[kept],
                stack=track.stack[kept],
                memory_ns=track.memory_ns[freed],
                nbytes=track.nbytes[freed],
                address=track.address[freed],
                link=None if track.link is None else track.link[kept],
                correlation=None if track.correlation is None else track.correlation[kept],
            )
        )
    return replace(capture, tracks=tracks)


def _covered(begin: np.ndarray, end: np.ndarray, starts: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """Which stretches lie in one of some others, given by start and by how far those up to each reach."""
    place = np.searchsorted(starts, begin, side="right") - 1
    covered: np.ndarray = (
        (place >= 0) & (end <= reach[np.maximum(place, 0)]) if len(starts) else np.zeros(len(begin), bool)
    )
    return covered
