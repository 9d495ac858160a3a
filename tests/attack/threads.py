"""Threads that compute while they are recorded, with every mix of options and the interpreter switching between them as
often as it can. What they compute has to be right, and every event has to be there.

    python tests/attack/threads.py --seconds 60 --seed 7

A round is a process of its own. It draws options, how often the interpreter switches, and which programs how many threads
run how often; the same programs one after another in one thread say what there is to be.
"""

from __future__ import annotations

import argparse
import collections
import gc
import random
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import mindtorch_v2 as torch
from allocations import forked
from mindtorch_v2.profiler import profile, record_function, schedule

FLAGS = ("record_shapes", "profile_memory", "with_stack", "with_modules", "with_flops")
INTERVALS = (1e-6, 1e-5, 1e-4, 0.005)
# How often a program is repeated in a round.
MOST_TURNS = 120


class Farewell:
    """Computes when it is freed, here by the garbage collector."""

    def __init__(self, place: list[float]) -> None:
        self.place = place
        self.itself = self

    def __del__(self) -> None:
        self.place.append((torch.ones(3) + torch.ones(3)).sum().item())


def step_draw(turn: int) -> Any:
    generator = torch.Generator().manual_seed(turn)
    return torch.randn(4, 5, generator=generator).sum().item()


def step_graph(turn: int) -> Any:
    w = torch.full((3, 3), float(turn), requires_grad=True)
    (w * w).sum().backward()
    return w.grad.sum().item()


def step_parts(turn: int) -> Any:
    x = torch.arange(12.0).reshape(3, 4).requires_grad_()
    first, rest = torch.split(x.t() * turn, 2)
    (first * rest).sum().backward()
    return [x.grad.sum().item(), *x.detach()[1].tolist()]


def step_change(turn: int) -> Any:
    x = torch.zeros(4, 2 + turn % 5)
    x[1:].add_(turn)
    x.t().mul_(2)
    return [x.sum().item(), torch.cat([x, x]).shape[0]]


def step_finalizers(turn: int) -> Any:
    found: list[float] = []
    for _ in range(3):
        Farewell(found)
    return found  # filled by the end of the round


def step_generator(turn: int) -> Any:
    @torch.no_grad()
    def numbers() -> Any:
        for i in range(3):
            yield (torch.ones(2, requires_grad=True) * i).requires_grad

    return [(item, torch.is_grad_enabled()) for item in numbers()]


def step_refusal(turn: int) -> Any:
    try:
        torch.ones(2, 3) @ torch.ones(2 + turn % 2 * 2, 3)
    except RuntimeError as error:
        return "cannot be multiplied" in str(error)
    return False


def step_module(turn: int) -> Any:
    layer = torch.nn.Linear(3, 2)
    with torch.no_grad():
        layer.weight.fill_(1)
        layer.bias.zero_()
    return layer(torch.full((1, 3), float(turn))).tolist()


def step_optimizer(turn: int) -> Any:
    w = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.AdamW([w], lr=0.5)
    for _ in range(2):
        optimizer.zero_grad()
        (w * turn).sum().backward()
        optimizer.step()
    return w.sum().item()


def step_region(turn: int) -> Any:
    with record_function("a region"), torch.inference_mode():
        return torch.max(torch.arange(6).reshape(2, 3) * turn, 1).indices.tolist()


def step_thread(turn: int) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append((torch.ones(2) * turn).tolist()))
    thread.start()
    thread.join()
    return found


STEPS: list[Callable[[int], Any]] = [value for name, value in list(globals().items()) if name.startswith("step_")]
# What two threads may do to one tensor at once, as torch's own engine lets them.
SHARED = 40


def work(steps: list[tuple[Callable[[int], Any], int]], found: list[Any]) -> None:
    """All turns of some steps; what each gives, or the exception that should not have been."""
    for step, turns in steps:
        for turn in range(1, turns + 1):
            try:
                found.append(step(turn))
            except BaseException as error:
                found.append(repr(error))


def add_up(leaf: Any, turns: int) -> None:
    for _ in range(turns):
        (leaf * 2).sum().backward()


def events_of(prof: Any) -> dict[str, int]:
    """How many events of each name there are; of Python functions, the steps alone. Of memory, how many came and went."""
    capture = prof.profiler.newest_capture()
    found: collections.Counter[str] = collections.Counter()
    for track in capture.tracks:
        for number, count in collections.Counter(track.kind.tolist()).items():
            kind = capture.kinds[number]
            if not kind.is_function or ("step_" in kind.name and "threads.py" in kind.name):
                found[kind.name] += count
        found["allocations"] += int((track.nbytes > 0).sum())
        found["frees"] += int((track.nbytes < 0).sum())
    found["notes"] = len(capture.notes)
    return dict(found)


def record(options: dict[str, bool], run: Callable[[], Any]) -> tuple[Any, dict[str, int]]:
    gc.collect()
    with profile(**options, all_threads=True) as prof:
        found = run()
        gc.collect()
    return found, events_of(prof)


def in_threads(plans: list[list[Any]], cycles: bool, options: dict[str, bool]) -> list[list[Any]]:
    """The plans, each in a thread of its own; beside them, while `cycles`, recordings that begin and end."""
    found: list[list[Any]] = [[] for _ in plans]
    threads = [threading.Thread(target=work, args=pair) for pair in zip(plans, found, strict=True)]
    for thread in threads:
        thread.start()
    while cycles and any(thread.is_alive() for thread in threads):
        with profile(**options, schedule=schedule(wait=0, warmup=1, active=1, repeat=2)) as inner:
            for _ in range(4):
                inner.step()
    for thread in threads:
        thread.join()
    return found


def one_after_another(plans: list[list[Any]]) -> list[list[Any]]:
    found: list[list[Any]] = [[] for _ in plans]
    for plan, place in zip(plans, found, strict=True):
        work(plan, place)
    return found


def run_round(seed: str) -> list[str]:
    """One round; what went wrong."""
    drawn = random.Random(seed)
    options = {flag: drawn.random() < 0.5 for flag in FLAGS}
    cycles = drawn.random() < 0.3
    interval = drawn.choice(INTERVALS)
    plans = [
        [(drawn.choice(STEPS), drawn.randrange(1, MOST_TURNS)) for _ in range(drawn.randrange(1, 4))]
        for _ in range(drawn.randrange(2, 6))
    ]
    if drawn.random() < 0.3:  # numbers of nodes change while inputs are asked for
        options["record_shapes"] = True
        plans = [[(step, drawn.randrange(MOST_TURNS, 10 * MOST_TURNS))] for step in (step_draw, step_draw, step_graph)]
    text = f"{seed}: {', '.join(flag for flag in FLAGS if options[flag]) or 'plain'}; switching every {interval} s"
    usual = sys.getswitchinterval()
    if drawn.random() < 0.5:  # else all threads meet ops for the first time, and have their code generated
        with profile(**options, all_threads=True):
            one_after_another(plans)
    leaf = torch.zeros(drawn.choice((3, 600, 50_000)), requires_grad=True)
    sys.setswitchinterval(interval)
    try:
        found, seen = record(options, lambda: in_threads(plans, cycles, options))
        adders = [threading.Thread(target=add_up, args=(leaf, SHARED)) for _ in range(3)]
        with profile(**options, all_threads=True):
            for thread in adders:
                thread.start()
            for thread in adders:
                thread.join()
    finally:
        sys.setswitchinterval(usual)
    expected, events = record(options, lambda: one_after_another(plans))
    problems = []
    if found != expected:
        pairs = [pair for pair in zip(found, expected, strict=True) if pair[0] != pair[1]]
        problems.append(f"{text}: a thread found {pairs[0][0]} instead of {pairs[0][1]}")
    differing = {name: (seen.get(name, 0), events.get(name, 0)) for name in {*seen, *events}}
    differing = {name: pair for name, pair in differing.items() if pair[0] != pair[1]}
    if differing and not (cycles and all(pair[0] > pair[1] for pair in differing.values())):
        problems.append(f"{text}: events (found, expected) {differing}")
    total = 2.0 * SHARED * len(adders)
    if leaf.grad is None or leaf.grad.tolist() != [total] * leaf.numel():
        problems.append(f"{text}: gradients of a shared leaf are {leaf.grad} instead of {total}")
    return problems


def main(seed: int, seconds: float, rounds: int = 0) -> int:
    """Rounds for so long (or so many); how many problems were found."""
    print(f"threads: seed {seed}", flush=True)
    began, number, found = time.monotonic(), 0, 0
    while number < rounds if rounds else time.monotonic() - began < seconds:
        name = f"{seed}.{number}"
        problems, end = forked(lambda name=name: run_round(name), limit=60)  # type: ignore[misc]
        for problem in [f"{name}: {end}"] if end else problems:
            found += 1
            print(problem, flush=True)
        number += 1
    print(f"threads: {number} rounds, {found} problems", flush=True)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=0, help="so many instead of so long")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    sys.exit(min(main(arguments.seed, arguments.seconds, arguments.rounds), 1))
