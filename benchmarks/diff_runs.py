"""How often `mindtorch diff` misleads about separate runs beside a busy process, and what rounds in turn find.

A small program runs again and again, each time in a process of its own, beside another that keeps a processor busy on and
off. Of single runs each is compared with the next one: every "slower" or "faster" is false. Then rounds in turn are drawn
from these runs, steps as they were recorded: equal sides, and sides of which one op that takes a fifth of the step is made 10 %
slower (its recorded times times 1.1).

python benchmarks/diff_runs.py [--runs N] [--baseline N] [--rounds N] [--draws N] [--seed N] [--quiet]
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np

import harness
from mindtorch_v2.cli.files import read_capture
from mindtorch_v2.profiler.analyse.baseline import measure
from mindtorch_v2.profiler.analyse.diff import FASTER, SLOWER, compare
from mindtorch_v2.profiler.analyse.settle import Settled, settle
from mindtorch_v2.profiler.capture.capture import Capture, Track

SLOWED = "aten::exp"
PROGRAM = """
import torch
x = torch.linspace(0.1, 0.9, 100_000)
w = torch.nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([w], lr=0.0)
for _ in range(200):
    for _ in range(5):
        y = torch.exp(x)
    for op in (torch.log, torch.sin, torch.tanh, torch.sqrt, torch.atan, torch.log1p, torch.reciprocal, torch.cos):
        z = op(x)
    (z.sum() * w).sum().backward()
    optimizer.step()
"""
BUSY = """
import random, sys, time
chance = random.Random(int(sys.argv[1]))
while True:
    until = time.monotonic() + chance.uniform(0.05, 2)
    while time.monotonic() < until:
        pass
    time.sleep(chance.uniform(0.05, 2))
"""


def record(folder: Path, number: int) -> Capture:
    place = folder / str(number)
    command = [
        sys.executable,
        "-m",
        "mindtorch_v2.profiler",
        "profile",
        "--no-report",
        "--no-stacks",
        "--clock",
        "cpu",
        "-o",
        str(place),
    ]
    subprocess.run([*command, str(folder / "program.py")], check=True, capture_output=True)
    return read_capture(str(place))


def verdicts(found: Settled) -> list[str]:
    """What is said to have changed its time."""
    names = [found.diff.names[place] for place in found.diff.of(SLOWER, FASTER)]
    changes = {"compute": found.compute, "wall": found.wall}
    return names + [
        name for name, change in changes.items() if change is not None and change.verdict in (SLOWER, FASTER)
    ]


def slowed(capture: Capture, factor: float) -> Capture:
    """The capture with one op made slower; what follows in its thread happens later by as much."""
    return replace(capture, tracks=[_slowed(track, capture, factor) for track in capture.tracks])


def _slowed(track: Track, capture: Capture, factor: float) -> Track:
    kinds = [number for number in np.unique(track.kind).tolist() if capture.kinds[number].name == SLOWED]
    chosen = np.isin(track.kind, kinds)
    longer = np.where(chosen, np.rint((track.end_ns - track.start_ns) * (factor - 1)).astype(np.int64), 0)
    order = np.argsort(track.end_ns[chosen], kind="stable")
    ends, later = track.end_ns[chosen][order], np.cumsum(longer[chosen][order])

    def moved(times: np.ndarray, side: str) -> np.ndarray:
        place = np.searchsorted(ends, times, side=side)
        return times + np.where(place > 0, later[np.maximum(place - 1, 0)], 0) if len(later) else times

    return replace(track, start_ns=moved(track.start_ns, "left"), end_ns=moved(track.end_ns, "right"))


def singles(captures: Sequence[Capture], baseline: int) -> dict[str, object]:
    known = measure(captures[:baseline])
    pairs = list(zip(captures[baseline:], captures[baseline + 1 :]))
    false = {"without a baseline": 0, "with one": 0}
    told: list[list[str]] = []
    for first, second in pairs:
        raw = compare([first], [second])
        false["without a baseline"] += bool(verdicts(settle(raw, [first], [second])))
        said = verdicts(settle(raw, [first], [second], known))
        false["with one"] += bool(said)
        told += [said] if said else []
    return {"pairs of single runs": len(pairs), "false verdicts": false, "said": told}


def rounds(captures: Sequence[Capture], count: int, draws: int, seed: int) -> dict[str, object]:
    """Neighbouring runs as rounds in turn: A, B, A, B, … from a random place on."""
    chance = random.Random(seed)
    alarms = found = others = 0
    for _ in range(draws):
        begin = chance.randrange(len(captures) - 2 * count + 1)
        part = captures[begin : begin + 2 * count]
        before, after = list(part[::2]), list(part[1::2])
        if chance.random() < 0.5:
            before, after = after, before
        alarms += bool(verdicts(settle(compare(before, after), before, after, in_turn=True)))
        after = [slowed(capture, 1.1) for capture in after]
        result = settle(compare(before, after), before, after, in_turn=True)
        seen = [result.diff.names[place] for place in result.diff.of(SLOWER)]
        found += SLOWED in seen
        others += any(name != SLOWED for name in seen)
    return {
        "rounds": count,
        "draws": draws,
        "alarms": alarms,
        "10 % slower op found": found,
        "others called slower": others,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("runs", 201), ("baseline", 10), ("rounds", 5), ("draws", 100), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--quiet", action="store_true", help="no busy process beside them")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        (folder / "program.py").write_text(PROGRAM)
        if not options.quiet:
            busy = stack.enter_context(subprocess.Popen([sys.executable, "-c", BUSY, str(options.seed)]))
            stack.callback(busy.kill)
        captures = [record(folder, number) for number in range(options.runs + options.baseline)]
    result = {
        "seed": options.seed,
        "busy": not options.quiet,
        **singles(captures, options.baseline),
        **rounds(captures, options.rounds, options.draws, options.seed),
    }
    print(json.dumps(result, indent=1))
    results = json.loads(harness.RESULTS.read_text()) if harness.RESULTS.exists() else {}
    results["diff_runs"] = {**result, "versions": harness.versions()}
    harness.RESULTS.write_text(json.dumps(results, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
