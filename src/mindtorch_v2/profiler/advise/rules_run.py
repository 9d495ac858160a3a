"""Rules about a run as a whole: data that is waited for, start-up, Python code, steps out of line, the machine."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..analyse import tree
from ..capture.capture import STEP_PREFIX
from ..record import step_clock
from .findings import HIGH, LOW, MEDIUM, Finding, Run, spoken
from .origins import Frame, frame_of
from .parts import DATA, IDLE, LOADER, PYTHON
from .places import Spot, spot_at

_PYTHON_SHARE = 0.05
_OUTLIER = 3.0
# What takes less than this at the beginning is not worth a word.
_IMPORTS_NS, _START_UP_NS = 200_000_000, 1_000_000_000
_TORCH = ("mindtorch_v2/", "torch/")


def notes(run: Run) -> Iterator[Finding]:
    """What the capture says of itself: rows lost, a file cut short."""
    said = [note for note in run.metrics.capture.notes if "nothing is missing" not in note]
    if said:
        title = "This recording is not complete" if len(said) > 1 else said[0]
        yield Finding("notes", HIGH, title, " · ".join(said) if len(said) > 1 else "", len(said), 0, 0.0, [])


def loader_waits(run: Run) -> Iterator[Finding]:
    """The loop waits for its next batch."""
    metrics = run.metrics
    events = run.ops(lambda name: name.startswith(LOADER))
    events = events[metrics.track[events] == run.parts.track]
    if not len(events):
        return
    time = run.time(events)
    single = run.ops(lambda name: name.startswith(LOADER) and "SingleProcess" in name)
    if len(single):
        users, frame = _users_part(run, single)
        title = f"Loading data in the main process takes {run.amount(time)}"
        advice = (
            "DataLoader(num_workers=2 or more) loads while the program computes; or do less in __getitem__, and what can "
            "be done once, before the loop."
        )
        # What the loader itself takes for many small samples is hardly worth a process.
        level = run.level(run.share(time), HIGH if users >= 0.5 * time else LOW, medium=0.05)
        spots = spot_at(frame, len(single), users, int(single[0])) if users >= 0.5 * time else []
    else:
        title = "The program waits for the DataLoader's workers"
        advice = "Raise num_workers or prefetch_factor, do less in __getitem__ and collate_fn, or cache what they make."
        level = run.level(run.share(time), medium=0.05)
        spots = []
    run.spoken_of |= run.parts.inside(LOADER)
    spots = spots + run.places.spots(events, 1)
    yield Finding("loader_waits", level, title, advice, len(events), time, run.share(time), spots)


def _users_part(run: Run, loads: np.ndarray) -> tuple[int, Frame | None]:
    """What of the loading is the user's own code, and the line or function that takes most of it."""
    metrics, slices, code = run.metrics, run.code.slices, run.code
    inside = run.parts.inside(LOADER)
    depth = code.depth
    # The user's functions that the loader calls are deeper than the one that waits for it.
    around = np.where(inside, tree.splice(metrics.parent, ~metrics.of_kinds(lambda k: k.name.startswith(LOADER))), -1)
    mine = inside[slices.owner] & (depth[slices.owner] > depth[np.maximum(around[slices.owner], 0)])
    mine &= around[slices.owner] >= 0
    if not mine.any():
        return 0, None
    own = np.bincount(slices.node[mine], weights=slices.length_ns[mine], minlength=len(code.tree.parent))
    return int(own.sum()), code.tree.frames[int(np.argmax(own))]


def imports(run: Run) -> Iterator[Finding]:
    """Modules that the program imports, but for torch itself."""
    metrics = run.metrics
    bodies = metrics.of_kinds(lambda kind: kind.is_function and kind.name.endswith(": <module>"))
    bodies &= run.importing
    bodies &= ~metrics.of_kinds(lambda kind: kind.name.startswith(_TORCH))
    outer = np.flatnonzero(bodies & (tree.splice(metrics.parent, ~bodies) < 0))
    time = run.time(outer)
    if time < _IMPORTS_NS:
        return
    event = int(outer[np.argmax(metrics.total_ns[outer])])
    frame = frame_of(metrics.kind_of(int(metrics.kind[event])).name)
    module = frame.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".") if frame is not None else ""
    longest = int(metrics.total_ns[event])
    around = int(tree.splice(metrics.parent, ~run.code.is_users)[event])
    caller = run.code.tree.frames[int(run.code.function_node[around])] if around >= 0 else None
    spots = []
    if caller is not None:
        line = run.sources.import_of(caller.file, module)
        spots = spot_at(caller._replace(line=line, exact=True) if line else caller, 1, longest, event)
    title = f"Importing modules takes {run.amount(time, True)}, most of it {module} ({spoken(longest)})"
    advice = "Import what few runs need inside the function that needs it, and do no work at the top of a module."
    level = run.level(run.share(time, True), MEDIUM, medium=0.2)
    yield Finding("imports", level, title, advice, len(outer), time, run.share(time, True), spots)


def _in_torch(run: Run) -> np.ndarray:
    """What runs in a function of torch's, or in what it calls."""
    metrics = run.metrics
    functions = metrics.of_kinds(lambda kind: kind.is_function and not kind.name.startswith("<built-in"))
    nearest = tree.splice(metrics.parent, ~functions)
    nearest = np.where(functions, np.arange(len(nearest)), nearest)
    torch = metrics.of_kinds(lambda kind: kind.name.startswith(_TORCH))
    found: np.ndarray = (nearest >= 0) & torch[nearest]
    return found


def python_code(run: Run) -> Iterator[Finding]:
    """Functions of the user's whose Python code itself, not the ops it calls, takes long."""
    metrics, code, slices = run.metrics, run.code, run.code.slices
    if not code.is_users.any():
        return
    part = run.parts.of_events
    mine = np.isin(part[slices.owner], (PYTHON, IDLE)) & (metrics.track[slices.owner] == run.parts.track)
    mine &= ~run.spoken_slices() & ~(run.importing | _in_torch(run))[slices.owner]
    mine &= run.usual_slices()
    kinds = np.where(code.activation >= 0, metrics.kind[np.maximum(code.activation, 0)], -1)[slices.owner]
    mine &= kinds >= 0
    if not mine.any():
        return
    sums = np.bincount(kinds[mine], weights=slices.length_ns[mine])
    for kind in np.argsort(-sums)[:3].tolist():
        time = int(sums[kind])
        if run.share(time) < _PYTHON_SHARE:
            return
        rows = mine & (kinds == kind)
        yield _python_finding(run, kind, time, rows)


def start_up(run: Run) -> Iterator[Finding]:
    """What the program does before its first step."""
    metrics, code, slices = run.metrics, run.code, run.code.slices
    if len(run.steps.places) < 2 or not code.is_users.any():
        return
    first = int(run.parts.bounds()[0][0])
    mine = (slices.start_ns < first) & (metrics.track[slices.owner] == run.parts.track) & (slices.node > 0)
    mine &= ~run.importing[slices.owner]
    sums = np.bincount(slices.node[mine], weights=slices.length_ns[mine]) if mine.any() else np.zeros(1)
    time = int(sums.sum())
    if time < _START_UP_NS:
        return
    node = int(np.argmax(sums))
    title = f"Start-up, before the first step, takes {run.amount(time, True)} beside imports"
    advice = "Prepare data once and keep it in a file; of a long run this matters little."
    level = run.level(run.share(time, True), MEDIUM, medium=0.3)
    spots = spot_at(code.tree.frames[node], 1, int(sums[node]))
    yield Finding("start_up", level, title, advice, 1, time, run.share(time, True), spots)


def _python_finding(run: Run, kind: int, time: int, rows: np.ndarray) -> Finding:
    metrics, code, slices = run.metrics, run.code, run.code.slices
    function = frame_of(metrics.kind_of(kind).name, exact=False)
    by_owner = np.bincount(metrics.kind[slices.owner[rows]], weights=slices.length_ns[rows])
    top = metrics.kind_of(int(np.argmax(by_owner)))
    nodes = np.bincount(slices.node[rows], weights=slices.length_ns[rows])
    frame = code.tree.frames[int(np.argmax(nodes))] or function
    callee = ""
    if by_owner.max() > 0.5 * time and top.name.startswith("<built-in"):
        callee = top.name.split()[2].rstrip(">")
        frame = run.sources.call_in(function, callee) if function is not None else frame
    calls = len(np.unique(code.activation[slices.owner[rows]]))
    where = (
        f"Python code in {function.name}" if function and function.name != "<module>" else "Python code of the program"
    )
    most = f", most of it {callee}()" if callee else ""
    title = f"{where} takes {run.amount(time)}{most}"
    advice = "Time outside of ops: move what does not change out of the loop, and work with whole tensors or arrays."
    if metrics.capture.options.stacks:
        advice += " Recording stacks makes Python slower: compare with --no-stacks."
    # Of the function that makes the steps, some is the loop itself, and where the machine is busy, what others took.
    loops = calls < len(run.steps.places)
    level = run.level(run.share(time), LOW if loops and run.away[1] > 50 else MEDIUM, medium=0.3 if loops else 0.1)
    return Finding("python_code", level, title, advice, calls, time, run.share(time), spot_at(frame, calls, time))


def warm_up(run: Run) -> Iterator[Finding]:
    """First steps that take longer than the others, and with them bend all averages."""
    warm = run.parts.warm_steps()
    if not warm:
        return
    begin, end = run.parts.bounds()
    usual = float(np.median((end - begin)[warm:]))
    extra = int((end - begin)[:warm].sum() - warm * usual)
    first = float((end - begin)[0])
    which = "The first step takes" if warm == 1 else f"The first {warm} steps take up to"
    title = f"{which} {first / usual:.1f} times as long as the median of the others"
    advice = (
        "Warm up before measuring: --wait 1 --warmup 1, or schedule(wait=1, warmup=1, active=…), leaves such steps out."
    )
    event = int(run.steps.places[0])
    spot = Spot(run.steps.labels(run.metrics)[0], 1, int(first), event)
    yield Finding("warm_up", LOW, title, advice, warm, extra, run.share(extra, True), [spot])


def outliers(run: Run) -> Iterator[Finding]:
    """Steps that take far longer than the usual one."""
    begin, end = run.parts.bounds()
    length = end - begin
    if len(length) < 8:
        return
    usual = float(np.median(length))
    spread = float(np.median(np.abs(length - usual)))
    far = length > max(_OUTLIER * usual, usual + 10 * spread)
    far[: max(1, run.parts.warm_steps())] = False
    far &= ~_disturbed(run, length - usual)
    # Many slow steps are no outliers, but a way of the program.
    if not far.any() or far.sum() > max(1, len(length) // 50):
        return
    slow = np.flatnonzero(far)
    extra = int((length[slow] - usual).sum())
    frame, place_ns = _what_is_more(run, slow)
    worst = int(slow[np.argmax(length[slow])])
    labels = run.steps.labels(run.metrics)
    which = f"Step {labels[worst].rpartition('#')[2]}" if len(slow) == 1 else f"{len(slow)} steps"
    each = f"{spoken(float(length[worst]))}, {length[worst] / usual:.0f} times the median"
    title = f"{which} took {'up to ' if len(slow) > 1 else ''}{each}"
    advice = (
        "Something that happens rarely (saving, logging, evaluation, a collection of garbage) is paid for here: see what "
        "the step does that others do not."
    )
    spots = spot_at(frame, len(slow), place_ns, int(run.steps.places[worst])) if frame is not None else []
    spots.append(Spot(labels[worst], 1, int(length[worst]), int(run.steps.places[worst])))
    level = run.level(run.share(extra), HIGH if place_ns >= 0.5 * extra else LOW, medium=0.03)
    run.spans += list(zip(begin[slow].tolist(), end[slow].tolist()))
    yield Finding("outlier_step", level, title, advice, len(slow), extra, run.share(extra), spots)


def _disturbed(run: Run, extra: np.ndarray) -> np.ndarray:
    """Which steps took their extra time because the processor was given to other programs meanwhile."""
    said = step_clock.stated(run.metrics.capture.metadata)
    rows = {f"{STEP_PREFIX}{number}": place for place, number in enumerate(said["step"].tolist())} if said else {}
    place = np.array([rows.get(label, -1) for label in run.steps.labels(run.metrics)], np.int64)
    if not rows or (place < 0).all():
        return np.zeros(len(extra), bool)
    lost = (said["wall_ns"] - said["thread_cpu_ns"])[place] - run.parts.by_step[:, [DATA, IDLE]].sum(axis=1)
    found: np.ndarray = (place >= 0) & (said["switches"][place] > 0) & (lost > 0.5 * extra)
    return found


def _what_is_more(run: Run, slow: np.ndarray) -> tuple[Frame | None, int]:
    """The line or function that takes more in some steps than in the others, in Python, and how much more."""
    metrics, slices, code = run.metrics, run.code.slices, run.code
    steps = len(run.parts.bounds()[0])
    begin, end = run.parts.bounds()
    mine = np.flatnonzero(metrics.track[slices.owner] == run.parts.track)
    step = np.searchsorted(begin, slices.start_ns[mine], side="right") - 1
    inside = (step >= 0) & (slices.start_ns[mine] < end[np.maximum(step, 0)])
    # An op that took long once tells of the machine; code of the program that did, of the program.
    inside &= ~code.is_op[slices.owner[mine]]
    rows, step = mine[inside], step[inside]
    in_slow = np.isin(step, slow)
    count = len(code.tree.parent)
    taken = np.bincount(slices.node[rows[in_slow]], weights=slices.length_ns[rows[in_slow]], minlength=count)
    usual = np.bincount(slices.node[rows[~in_slow]], weights=slices.length_ns[rows[~in_slow]], minlength=count)
    more = taken - usual / max(steps - len(slow), 1) * len(slow)
    node = int(np.argmax(more)) if count else 0
    frame = code.tree.frames[node]
    if frame is not None:
        longest = rows[in_slow & (slices.node[rows] == node)]
        owner = metrics.kind_of(int(metrics.kind[slices.owner[longest[np.argmax(slices.length_ns[longest])]]])).name
        if owner.startswith("<built-in"):
            frame = run.sources.call_in(frame, owner.split()[2].rstrip(">"))
    return frame, int(more[node])


def busy_machine(run: Run) -> Iterator[Finding]:
    """Other programs took the processor away while this one was measured."""
    lost, switches = run.taken, run.away[1]
    if not lost:
        return
    time = int(lost * run.parts.by_step.sum())
    title = (
        f"The machine was busy: the program's thread was put aside {switches:,.0f} times a second and did not run for "
        f"{lost:.0%} of its steps' time"
    )
    advice = "Times are longer than they need be, and vary. Measure again on a quiet machine, or compare by rounds."
    yield Finding("busy_machine", LOW, title, advice, int(switches), time, lost, [])


def collections(run: Run) -> Iterator[Finding]:
    """Python's garbage collector at work."""
    events = run.ops(lambda name: name == "Python GC")
    time = run.time(events)
    if not len(events):
        return
    title = f"{len(events):,} garbage collections"
    advice = "gc.freeze() after setting up, or collecting once a step, keeps collections out of the hot path."
    level = run.level(run.share(time), MEDIUM)
    yield Finding("collections", level, title, advice, len(events), time, run.share(time), run.places.spots(events))


def profiler_cost(run: Run) -> Iterator[Finding]:
    """Recording slows the program down noticeably."""
    share = run.cost.share if run.cost is not None else 0.0
    if share < 0.1:
        return
    options = run.metrics.capture.options
    flags = {"stacks": options.stacks, "shapes": options.shapes, "memory": options.memory}
    used = " and ".join(name for name, on in flags.items() if on)
    title = f"Recording ops takes about {share:.0%} of the run"
    advice = f"Short ops look longer than they are. Record without {used} to see by how much." if used else (
        "Short ops look longer than they are: judge them by their counts."
    )  # fmt: skip
    time = int(share * run.summary.window_ns)
    yield Finding("profiler_cost", LOW, title, advice, 0, time, share, [])
