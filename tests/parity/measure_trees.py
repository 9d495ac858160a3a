"""Event trees: how many of 214 small programs record the same events under our profiler as under torch 2.13's.

    python tests/parity/measure_trees.py [--package mindtorch_v2] [--only TEXT] [--verbose] [--json OUT]

Each program of data/tree_programs.py runs under `profile(record_shapes=True, with_flops=True)` and is compared with
data/trees.json.gz, the trees torch 2.13.0 recorded on a CPU. Two figures come out:
  top level   the sequence of top-level events agrees in name, input_shapes and flops
  compute     the events below agree too, as a multiset of (parent, name) pairs, once the bookkeeping that only
              ATen's own implementation needs (NOISE) is spliced out on both sides
A program that cannot even be set up, because a part is not built yet, counts as not agreeing.
"""

import argparse
import ast
import gzip
import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from parts import part

DATA = Path(__file__).parent / "data"
PROGRAMS = DATA / "tree_programs.py"
NOISE = {
    "aten::" + name
    for name in """resolve_conj resolve_neg as_strided as_strided_ empty empty_like empty_strided new_empty_strided
    resize_ result_type _nnpack_available cudnn_is_acceptable to _to_copy copy_ fill_ zero_ lift_fresh is_leaf
    output_nr _version""".split()
} | {"detach", "detach_"}
NOISE_ON_TOP = {"aten::lift_fresh", "aten::resolve_conj", "aten::resolve_neg", "aten::detach_"}

Event = dict[str, Any]  # name, input_shapes, flops, children


class Program(NamedTuple):
    name: str
    run: Callable[..., object]
    makers: tuple[Callable[[], object], ...]

    def arguments(self) -> list[object]:
        return [make() for make in self.makers]


class Agreement(NamedTuple):
    top: bool
    compute: bool
    why: str


def collect(package: str, verbose: bool = False) -> list[Program]:
    """Execute the program file statement by statement, and return the programs that could be set up."""
    programs: list[Program] = []
    torch = part(package)
    namespace = {
        "torch": torch,
        "nn": part(f"{package}.nn"),
        "F": part(f"{package}.nn.functional"),
        "data": part(f"{package}.utils.data"),
        "record_function": getattr(part(f"{package}.profiler"), "record_function", None),
        "program": lambda name, run, *makers: programs.append(Program(name, run, makers)),
    }
    if hasattr(torch, "manual_seed"):
        torch.manual_seed(0)
    source = PROGRAMS.read_text()
    for statement in ast.parse(source).body:
        try:
            exec(compile(ast.Module([statement], []), PROGRAMS.name, "exec"), namespace)
        except Exception as error:
            if verbose:
                print(f"not set up: {(ast.get_source_segment(source, statement) or '')[:80]!r}: {error}")
    return programs


def recorded(profiler: ModuleType, program: Program) -> list[Event]:
    """Run a program once plain and once profiled, and return the tree of the profiled run."""
    arguments = program.arguments()
    program.run(*program.arguments())
    with profiler.profile(activities=[profiler.ProfilerActivity.CPU], record_shapes=True, with_flops=True) as profile:
        program.run(*arguments)
    return [tree(event) for event in profile.events() if event.cpu_parent is None]


def tree(event: Any) -> Event:
    children = [tree(child) for child in event.cpu_children]
    return {"name": event.name, "input_shapes": event.input_shapes, "flops": event.flops, "children": children}


def top(events: Iterable[Event]) -> list[tuple[str, list[list[int]], int]]:
    return [
        (event["name"], [list(shape) for shape in event["input_shapes"]], event["flops"] or 0)
        for event in events
        if event["name"] not in NOISE_ON_TOP
    ]


def below(events: Iterable[Event], parent: str = "") -> Counter[tuple[str, str]]:
    """Count (parent, name) pairs; children of a noise event belong to the nearest parent that is none."""
    pairs: Counter[tuple[str, str]] = Counter()
    for event in events:
        kept = event["name"] not in NOISE
        if kept:
            pairs[parent, event["name"]] += 1
        pairs += below(event["children"], event["name"] if kept else parent)
    return pairs


def compare(got: list[Event], want: list[Event]) -> Agreement:
    if top(got) != top(want):
        return Agreement(False, False, f"top level {top(got)} instead of {top(want)}")
    extra, missing = below(got) - below(want), below(want) - below(got)
    if extra or missing:
        return Agreement(True, False, f"below: {dict(extra)} too many, {dict(missing)} missing")
    return Agreement(True, True, "")


def measure(package: str, only: str = "", verbose: bool = False) -> dict[str, Agreement]:
    """Return for each recorded program whose name contains `only` whether the package agrees with it."""
    golden = {row["case"]: row["tree"] for row in json.loads(gzip.decompress((DATA / "trees.json.gz").read_bytes()))}
    golden = {name: events for name, events in golden.items() if only in name}
    results = dict.fromkeys(golden, Agreement(False, False, "not set up"))
    profiler = part(f"{package}.profiler")
    for program in collect(package, verbose):
        if program.name not in golden:
            continue
        try:
            results[program.name] = compare(recorded(profiler, program), golden[program.name])
        except Exception as error:
            results[program.name] = Agreement(False, False, f"{type(error).__name__}: {error}")
    return results


def figures(results: dict[str, Agreement]) -> dict[str, tuple[int, int]]:
    """Return the figures by their name in floors.json, each as (agreeing, of)."""
    return {
        "trees_top": (sum(result.top for result in results.values()), len(results)),
        "trees_compute": (sum(result.compute for result in results.values()), len(results)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare event trees with torch 2.13's.")
    parser.add_argument("--package", default="mindtorch_v2")
    parser.add_argument("--only", default="", help="programs whose name contains this text")
    parser.add_argument("--verbose", action="store_true", help="say why a program does not agree")
    parser.add_argument("--json", type=Path, help="write the figures and each program's agreement to this file")
    options = parser.parse_args()
    warnings.simplefilter("ignore")

    results = measure(options.package, options.only, options.verbose)
    if options.verbose:
        for name, result in results.items():
            if result.why:
                print(f"{name}: {result.why[:600]}")
    if options.json:
        rows = {name: result._asdict() for name, result in results.items()}
        options.json.write_text(json.dumps({"figures": figures(results), "results": rows}, indent=1))
    (tops, of), (computes, _) = figures(results).values()
    print(f"trees: top level {tops}/{of}, compute {computes}/{of} agree with torch 2.13")


if __name__ == "__main__":
    main()
