"""Rules about ops: loops over elements, casts, copies, tensors built again, values read, work too small to be worth a call."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ..analyse.metrics import Metrics
from .findings import HIGH, LOW, MEDIUM, Finding, Run, spoken
from .loops import READS, Loop, backward_ns, events_in, find_loops
from .origins import Frame
from .parts import LOADER, OPTIMIZER_REGION
from .places import Spot, spot_at

Ints = NDArray[np.int64]

TINY_NS = 10_000
_MOST_LOOPS = 5
# Below this, copies that have a reason are not worth a change.
_LAYOUT_SHARE = 0.06
_COPIES = frozenset(("aten::clone", "aten::copy_", "aten::contiguous"))
_LAYOUTS = frozenset(("aten::contiguous", "aten::reshape", "aten::flatten"))
# Functions that copy a whole state, called by the user; what they call is theirs.
_STATE_COPIES = ("deepcopy", "load_state_dict")
_CASTS = frozenset(("aten::to", "aten::_to_copy", "aten::type_as"))
_CAST = "aten::_to_copy"
_BUILDERS = frozenset(
    f"aten::{name}" for name in ("ones", "zeros", "full", "arange", "eye", "linspace", "logspace", "tril", "triu", "tril_indices",
    "triu_indices", "hann_window", "meshgrid", "one_hot")
)  # fmt: skip
# Numbers of dtypes in recorded arguments, by the names that input types have.
_DTYPES = {
    0: "unsigned char", 1: "signed char", 2: "short int", 3: "int", 4: "long int", 5: "c10::Half", 6: "float",
    7: "double", 9: "c10::complex<float>", 10: "c10::complex<double>", 11: "bool", 15: "c10::BFloat16",
}  # fmt: skip


def loops(run: Run) -> Iterator[Finding]:
    """Loops in Python over what one op could do at once."""
    for loop in find_loops(run)[:_MOST_LOOPS]:
        time = loop.time_ns + backward_ns(run, loop)
        run.spoken_of |= events_in(run, loop)
        run.spans += loop.spans
        if _is_most_of_its_function(run, loop):
            run.functions.add(loop.function)
        frame = _loop_line(run, loop)
        where = f"in {frame.name}" if not frame.name.startswith("<") else "in the program"
        each = _a_step(run, loop.turns)
        reads = loop.reads >= 0.9 * max(loop.lines.values())
        if reads:
            title = f"A loop {where} reads {loop.reads:,} single values ({each})"
            advice = (
                "int(), float(), item() and tests of tensors read one value at a time. Compute with whole tensors, "
                "(a == b).sum() for instance, and read the result once; or read all values at once by tolist()."
            )
        else:
            title = f"A Python loop over rows or elements {where} turns {loop.turns:,} times ({each})"
            advice = (
                "Each turn calls ops on a small piece, and calling costs more than computing. Use one op on the whole "
                "tensor: a reduction with dim=, broadcasting, where(), clamp() or a mask instead of the loop."
            )
        rule = "reads" if reads else "element_loop"
        share, spots = run.share(time), _loop_spots(loop, frame, time)
        yield Finding(rule, run.level(share), title, advice, loop.turns, time, share, spots)


def _is_most_of_its_function(run: Run, loop: Loop) -> bool:
    calls = run.metrics.of_kinds(lambda kind: kind.name == loop.function)
    return loop.time_ns >= 0.5 * int(run.metrics.total_ns[calls].sum())


def _loop_line(run: Run, loop: Loop) -> Frame:
    """Where the loop begins, as far as the source tells; else the line that turns most."""
    busiest = max(loop.lines, key=lambda frame: loop.lines[frame])
    found = run.sources.loop_around(busiest)
    # What is written in passing goes by the name of the function it is in.
    name = loop.function.partition("): ")[2]
    return found._replace(name=name) if busiest.name.startswith("<") else found


def _loop_spots(loop: Loop, frame: Frame, time: int) -> list[Spot]:
    rest = sorted((line for line in loop.lines if line.place != frame.place), key=lambda line: line.line)[:4]
    more = [spot for line in rest for spot in spot_at(line, loop.lines[line], 0, loop.first_event)]
    return spot_at(frame, loop.turns, time, loop.first_event) + more


def _a_step(run: Run, count: int) -> str:
    steps = len(run.steps.places)
    if not steps or count < steps:
        return "in all"
    return f"{count / steps:,.0f} a step"


def _free(run: Run, events: NDArray[np.intp]) -> NDArray[np.intp]:
    """Events of the user's that no finding has spoken of yet."""
    return events[run.called_by_user[events] & ~run.spoken_of[events]]


def _with_backward(run: Run, events: NDArray[np.intp], names: frozenset[str]) -> NDArray[np.intp]:
    """The events, and those of the same names that the backward of their lines runs."""
    nodes = np.zeros(int(run.code.node.max(initial=0)) + 1, bool)
    nodes[run.code.node[events]] = True
    nodes[0] = False
    again = run.ops(lambda name: name in names)
    again = again[(run.metrics.backward_root[again] >= 0) & nodes[run.code.node[again]]]
    return np.concatenate([events, again])


def casts(run: Run) -> Iterator[Finding]:
    """Tensors converted from one dtype to another, above all there and back again."""
    metrics = run.metrics
    really = _holding(run, _CAST)
    events = run.ops(lambda name: name in _CASTS)
    events = _free(run, events[really[events] & ~run.moves[events]])
    pairs = {event: _cast(metrics, int(event)) for event in events.tolist()}
    events = events[np.array([source != target or not source for source, target in pairs.values()], bool)]
    if len(events) < 3:
        return
    for lines, mine in _by_function(run, events):
        mine = _with_backward(run, mine, _CASTS)
        time = run.time(mine)
        seen = {pairs[event] for event in mine.tolist() if event in pairs}
        both = sorted({tuple(sorted(pair)) for pair in seen if pair[0] and pair[::-1] in seen and pair[0] != pair[1]})
        # Where dtypes were not recorded, two casts in one call of a function are taken for there and back.
        back = bool(both) or (all(not pair[0] for pair in seen) and lines > 1.5)
        between = f" between {both[0][0]} and {both[0][1]}" if both else ""
        how = "there and back" if back else "of dtypes"
        title = f"{len(mine):,} casts {how}{between}"
        advice = (
            "Convert once where data enters the program; constants of the right dtype need no conversion each step."
        )
        run.spoken_of[mine] = True
        level = run.level(run.share(time), HIGH if back else LOW)
        yield Finding("casts", level, title, advice, len(mine), time, run.share(time), run.places.spots(mine))


def _holding(run: Run, name: str) -> NDArray[np.bool_]:
    """Which events are of a name, or have one right inside."""
    named = run.metrics.of_kinds(lambda kind: kind.name == name)
    found = named.copy()
    parents = run.metrics.parent[named]
    found[parents[parents >= 0]] = True
    return found


def _by_function(run: Run, events: NDArray[np.intp]) -> Iterator[tuple[float, NDArray[np.intp]]]:
    """Events by the function that calls them, with how many one call of it makes on average."""
    activation = run.code.activation[events]
    kinds = np.where(activation >= 0, run.metrics.kind[np.maximum(activation, 0)], -1)
    for kind in np.unique(kinds).tolist():
        mine = events[kinds == kind]
        calls = np.unique(activation[kinds == kind] * (len(run.parts.bounds()[0]) + 1) + run.step_of[mine] + 1)
        yield len(mine) / len(calls), mine


def _cast(metrics: Metrics, event: int) -> tuple[str, str]:
    """From which dtype to which, as far as inputs were recorded."""
    record = metrics.input_record(int(metrics.kind[event]), int(metrics.inputs[event]))
    source = record.dtypes[0] if record.dtypes else ""
    code = record.concrete[1] if len(record.concrete) > 1 else None
    try:
        return source, _DTYPES.get(int(code), "another dtype") if code not in (None, "") else source and "another dtype"
    except (TypeError, ValueError):
        return source, "another dtype"


def copies(run: Run) -> Iterator[Finding]:
    """Data copied only to change its layout or its owner."""
    events = run.ops(lambda name: name in _COPIES | _LAYOUTS)
    events = events[~run.moves[events]]
    inner = run.metrics.of_kinds(lambda kind: kind.name in ("aten::clone", "aten::copy_"))
    holds = inner.copy()
    parents = run.metrics.parent[inner]
    holds[parents[parents >= 0]] = True
    # contiguous() of what is contiguous copies nothing.
    events = events[holds[events] & ~run.spoken_of[events]]
    mine = events[run.called_by_user[events] | _copies_state(run, events)]
    layout = run.metrics.of_kinds(lambda kind: kind.name in _LAYOUTS)
    for _, chosen in _by_function(run, mine[~layout[mine]]):
        yield from _copies_of(run, chosen)
    chosen = mine[layout[mine]]
    if not len(chosen):
        return
    time = run.time(chosen)
    title = f"{len(chosen):,} copies for another layout"
    advice = (
        "contiguous() and reshape() of a transposed tensor copy all of its data. Keep layouts that need no copy, "
        "and use view() where possible."
    )
    level = run.level(run.share(time), MEDIUM, medium=_LAYOUT_SHARE)
    yield Finding("layout_copies", level, title, advice, len(chosen), time, run.share(time), run.places.spots(chosen))


def _copies_of(run: Run, events: NDArray[np.intp]) -> Iterator[Finding]:
    """Copies that one function makes; those of a loop that was spoken of belong to it."""
    activation = int(run.code.activation[events[0]])
    if activation >= 0 and run.metrics.kind_of(int(run.metrics.kind[activation])).name in run.functions:
        return
    time, spots = _whole_lines(run, events)
    steps = max(len(run.steps.places), 1)
    title = f"{len(events):,} copies of tensors ({_a_step(run, len(events))})"
    advice = (
        "clone(), deepcopy() and copies of a state every step copy all data each time. Keep them for when they "
        "are needed (the best epoch, a checkpoint), or copy into tensors that exist already with copy_()."
    )
    run.spoken_of[events] = True
    # One copy a step is most often of data that is about to be changed.
    level = (
        run.level(run.share(time))
        if len(events) >= 2 * steps
        else run.level(run.share(time), MEDIUM, medium=_LAYOUT_SHARE)
    )
    yield Finding("copies", level, title, advice, len(events), time, run.share(time), spots)


def _copies_state(run: Run, events: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Which of some events copy a state for the user, who calls deepcopy() or the like."""
    metrics = run.metrics
    outside = (
        (metrics.backward_root[events] < 0)
        & ~run.parts.inside(OPTIMIZER_REGION)[events]
        & ~run.parts.inside(LOADER)[events]
    )
    stacks = metrics.columns.stack[events]
    known: dict[int, bool] = {0: False}
    for stack in np.unique(stacks).tolist():
        frames = metrics.capture.stacks.read(stack) if stack else []
        until = next((i for i, frame in enumerate(frames) if run.code.origins.is_users(frame)), 0)
        known[stack] = any(frame.endswith(_STATE_COPIES) for frame in frames[:until])
    return outside & np.array([known[stack] for stack in stacks.tolist()], bool)


def _whole_lines(run: Run, events: NDArray[np.intp]) -> tuple[int, list[Spot]]:
    """Time and places of lines that are there for such events; where a line does more, of the events alone."""
    metrics, code, slices = run.metrics, run.code, run.code.slices
    # The same line of a file, whatever calls it and whether in a comprehension or around it.
    number: dict[str, int] = {}
    line = np.array([number.setdefault(frame.place if frame else "", len(number)) for frame in code.tree.frames])
    usual = run.usual_slices()
    own = np.bincount(line[slices.node[usual]], weights=slices.length_ns[usual], minlength=len(number))
    ops = np.flatnonzero(run.called_by_user)
    by_line = np.bincount(line[code.node[ops]], weights=metrics.total_ns[ops], minlength=len(number))
    of_events = np.bincount(line[code.node[events]], weights=metrics.total_ns[events], minlength=len(number))
    time = np.where(of_events >= 0.5 * by_line, np.maximum(own, of_events), of_events)
    spots = [
        spot._replace(time_ns=int(time[number[f"{spot.file}:{spot.line}"]])) if spot.file else spot
        for spot in run.places.spots(events)
    ]
    return sum(spot.time_ns for spot in spots), sorted(spots, key=lambda spot: -spot.time_ns)


def rebuilt(run: Run) -> Iterator[Finding]:
    """Tensors that hold the same in every step, built in every step."""
    steps = len(run.steps.places)
    events = _free(run, run.ops(lambda name: name in _BUILDERS))
    if steps < 4 or not len(events):
        return
    nodes = run.code.node[events]
    for node in np.unique(nodes).tolist():
        mine = events[nodes == node]
        in_steps = np.unique(run.step_of[mine][run.step_of[mine] >= 0])
        if len(in_steps) < 0.8 * steps:
            continue
        time, spots = _whole_lines(run, mine)
        if run.share(time) < 0.01:
            continue
        title = f"Tensors built anew in every step ({len(mine):,} calls)"
        advice = "What does not change from step to step (masks, positions, constants) is built once, before the loop."
        run.spoken_of[mine] = True
        level = run.level(run.share(time))
        yield Finding("rebuilt", level, title, advice, len(mine), time, run.share(time), spots)


def reads(run: Run) -> Iterator[Finding]:
    """Values of tensors read by the program outside of loops over elements."""
    events = _free(run, run.ops(lambda name: name in READS))
    if len(events) < 2:
        return
    time = run.time(events)
    title = f"item() and truth tests read {len(events):,} values ({_a_step(run, len(events))})"
    advice = (
        "Each read waits until its tensor is computed; on an accelerator that stalls the queue. "
        "Collect losses as tensors and read them rarely, and test no tensors in the loop."
    )
    level = run.level(run.share(time))
    yield Finding("reads", level, title, advice, len(events), time, run.share(time), run.places.spots(events))


def small_batches(run: Run) -> Iterator[Finding]:
    """Steps that do so little that calling ops takes the time."""
    metrics = run.metrics
    steps = len(run.steps.places)
    loads = run.ops(lambda name: name.startswith(LOADER))
    if steps < 50 or len(loads) < steps:
        return
    begin, end = run.parts.bounds()
    length = int((end - begin).sum())
    # Slower steps may have been disturbed.
    quiet = np.append(end - begin <= np.median(end - begin), False)
    leaves = run.code.is_op & ~run.spoken_of & quiet[run.step_of]
    inside = metrics.parent[leaves]
    leaves[inside[inside >= 0]] = False
    time = metrics.total_ns[leaves]
    if not len(time) or time[time < TINY_NS].sum() < 0.7 * time.sum():
        return
    title = (
        f"{steps:,} steps of {spoken(float(np.median(end - begin)))} do little each: their ops take "
        f"{spoken(float(np.median(time)))} in the median, most of it for calling them"
    )
    advice = "Larger batches do more in every call: raise the DataLoader's batch_size, and the learning rate with it."
    spots = run.places.spots(loads[run.step_of[loads] >= 0])
    run.spans += list(zip(begin.tolist(), end.tolist()))
    level = run.level(run.share(length), MEDIUM)
    yield Finding("small_batches", level, title, advice, steps, length, run.share(length), spots)
