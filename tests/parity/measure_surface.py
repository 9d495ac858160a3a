"""The profiler's public surface: names, methods, parameters and attributes, compared with torch 2.13's.

    python tests/parity/measure_surface.py [--package mindtorch_v2] [--verbose] [--json OUT]
    python tests/parity/measure_surface.py --write       write data/surface.json from the installed torch

A row is one fact: a public name exists, a parameter has that name, kind and default, an event has that attribute.
"""

import argparse
import enum
import inspect
import json
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

from parts import part

SURFACE = Path(__file__).parent / "data" / "surface.json"
MODULES = {
    "profiler": """profile schedule supported_activities tensorboard_trace_handler ProfilerAction ProfilerActivity
        kineto_available DeviceType record_function ExecutionTraceObserver _KinetoProfile _ExperimentalConfig
        RecordScope KinetoStepTracker itt""",
    "profiler.profiler": """supported_activities ProfilerAction schedule tensorboard_trace_handler profile
        ExecutionTraceObserver _KinetoProfile _ITraceObserver PROFILER_STEP_NAME""",
    "autograd.profiler": """profile record_function emit_itt emit_nvtx load_nvprof EnforceUnique parse_nvprof_trace
        KinetoStepTracker EventList FunctionEvent MemRecordsAcc kineto_available""",
    "autograd.profiler_util": """EventList EventMetadata FormattedTimesMixin Interval Kernel FunctionEvent
        FunctionEventAvg StringTable MemRecordsAcc""",
    "profiler.itt": "is_available range_push range_pop mark range",
}
# What would be silly to imitate: methods that CPython's list, dict and tuple bring, readers of a dead tool, torch's
# internals.
DROPPED = re.compile(
    r"""
    ^autograd\.profiler(_util)?\.(EventList|StringTable|Kernel|EventMetadata)
      \.(append|clear|copy|count|extend|index|insert|pop|popitem|remove|reverse|sort|default_factory|fromkeys|get|items
        |keys|setdefault|update|values)(\(|$)
    |^autograd\.profiler\.(load_nvprof|parse_nvprof_trace|EnforceUnique)\b
    |^profile\ object\.(action_map|has_cudagraphs|mem_tl|step_rec_fn)$
    |^event\ object\.(self_cpu_percent|total_cpu_percent|total_device_percent)$
    |ExecutionTraceObserver\.(get_resources_dir|get_resources_dir_for_et_path|set_extra_resource_collection)\b
    |^autograd\.profiler\.profile\.(config|create_trace_id|default_trace_id)\b""",
    re.VERBOSE,
)
OF_INT_AND_ENUM = set(
    """name value as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag numerator real
    to_bytes""".split()
)


def default_text(default: object) -> str:
    if default is inspect.Parameter.empty:
        return ""
    if isinstance(default, enum.Enum) or "object at" in repr(default):
        return str(getattr(default, "name", "?"))
    return str(default)


def parameters(obj: object) -> list[str]:
    try:
        signature = inspect.signature(obj)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return []
    return [
        f"{parameter.name}:{parameter.kind.name}:{default_text(parameter.default).split('.')[-1]}"
        for parameter in signature.parameters.values()
        if parameter.name not in ("self", "cls")
    ]


def public(obj: object) -> list[str]:
    return [name for name in dir(obj) if not name.startswith("_")]


def class_facts(path: str, cls: type) -> Iterator[str]:
    enumlike = hasattr(cls, "__members__")
    for name in public(cls):
        if enumlike and name in OF_INT_AND_ENUM:
            continue
        yield f"{path}.{name}"
        is_property = isinstance(inspect.getattr_static(cls, name), property)
        if callable(getattr(cls, name, None)) and not enumlike and not is_property:
            yield from (f"{path}.{name}({parameter})" for parameter in parameters(getattr(cls, name)))
    if not enumlike:
        yield from (f"{path}({parameter})" for parameter in parameters(cls))


def name_facts(package: str) -> Iterator[str]:
    for module_name, names in MODULES.items():
        module = part(f"{package}.{module_name}")
        for name in names.split():
            if not hasattr(module, name):
                continue
            path, obj = f"{module_name}.{name}", getattr(module, name)
            yield path
            if name == "_ExperimentalConfig" or inspect.ismodule(obj):
                continue
            if inspect.isclass(obj):
                yield from class_facts(path, obj)
            elif callable(obj):
                yield from (f"{path}({parameter})" for parameter in parameters(obj))


def object_facts(package: str) -> list[str]:
    """Profile one addition and return the public attributes of what comes out; none where that fails."""
    torch, profiler = part(package), part(f"{package}.profiler")
    try:
        with profiler.profile(record_shapes=True) as profile:
            x = torch.ones(4, 4)
            x + x
        objects = {"profile": profile, "event": profile.events()[0], "average": profile.key_averages()[0]}
        return [f"{kind} object.{name}" for kind, obj in objects.items() for name in public(obj)]
    except Exception as error:
        print(f"nothing could be profiled: {type(error).__name__}: {error}", file=sys.stderr)
        return []


def facts(package: str) -> list[str]:
    found = {*name_facts(package), *object_facts(package)}
    event_list = getattr(part(f"{package}.autograd.profiler_util"), "EventList", None)
    if inspect.isclass(event_list) and issubclass(event_list, list):
        found.add("EventList is a list")
    return sorted(fact for fact in found if not DROPPED.search(fact))


def measure(package: str) -> dict[str, bool]:
    """Return for each fact of torch's surface whether it holds for the package."""
    got = set(facts(package))
    return {fact: fact in got for fact in json.loads(SURFACE.read_text())}


def figures(results: dict[str, bool]) -> dict[str, tuple[int, int]]:
    """Return the figure by its name in floors.json, as (holding, of)."""
    return {"surface": (sum(results.values()), len(results))}


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the profiler's public surface with torch 2.13's.")
    parser.add_argument("--package", default="mindtorch_v2")
    parser.add_argument("--write", action="store_true", help="write the facts of the installed torch")
    parser.add_argument("--verbose", action="store_true", help="name each missing fact")
    parser.add_argument("--json", type=Path, help="write the figure and each fact to this file")
    options = parser.parse_args()
    warnings.simplefilter("ignore")

    if options.write:
        SURFACE.write_text(json.dumps(facts("torch"), indent=0))
    results = measure("torch" if options.write else options.package)
    if options.verbose:
        print("".join(f"missing: {fact}\n" for fact, holds in results.items() if not holds), end="")
    if options.json:
        options.json.write_text(json.dumps({"figures": figures(results), "results": results}, indent=1))
    [(held, of)] = figures(results).values()
    print(f"surface: {held}/{of} facts of torch 2.13's profiler surface hold")


if __name__ == "__main__":
    main()
