"""Holds the layers: which module may import which, read from the source without importing anything.

LAYERS and PROFILER are the two tables to extend when a module is added; docs/architecture.md explains them.
"""

import ast
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = "mindtorch_v2"
SOURCE = Path(__file__).parents[2] / "src" / PACKAGE

# Layer → its modules, named from the package on. `ops.*` means the package ops with all that is in it; a module named
# in full counts first, so nn.functional is L4 although nn.* is L5. `.` is the package's own __init__.
LAYERS = {
    "L0": """_addresses _asserts _missing _settings _freely compiler _fork _built _lists _tap _steps _roles _allocator
        _floating _errors _dtype _device _size _meta _storage kernels.*""",
    "L1": "_tensor _tensor_str _random.* _mt19937",
    "L2": """autograd.node autograd.engine autograd.grad_mode autograd.graph autograd.function autograd.anomaly
        autograd.entry autograd.methods autograd.overrides autograd.variable""",
    "L3": "_schema _codegen _recorded _forward _inputs _compute _change _slow _functions _namespace _op _inside _front ops.*",
    "L4": """_bind _operators _methods _storages _legacy overrides return_types types random signal.* nn._reduction nn.functional.*
        linalg.* masked sparse.* fft.* special.* autograd.functional autograd.forward_ad
        autograd.jacobians autograd.mismatch autograd.promises autograd.gradcheck""",
    "L5": """nn.* optim.* ao.* distributions.* func utils.* amp.* serialization.* testing.* distributed.* multiprocessing.*
        jit fx onnx export library torch_version hub cuda.* cpu.* mps xpu mtia accelerator
        backends.* version _utils _higher_order_ops.* _dynamo _inductor _logging""",
    "P": "profiler.*",
    "F": """. _C.* __main__ _launcher cli.* _shim.* autograd autograd.profiler autograd.profiler_util autograd.profiler_legacy
        profiler profiler.__main__ profiler.itt""",
}
ORDER = ["L0", "L1", "L2", "L3", "L4", "L5"]  # a layer imports itself and the ones before it
MAY_IMPORT = {layer: {*ORDER[: i + 1]} for i, layer in enumerate(ORDER)}
MAY_IMPORT["P"] = {"L0", "P"}  # so the core never knows the profiler, and the profiler knows the core's tap alone
MAY_IMPORT["F"] = {*LAYERS}

# The profiler's stages, first to last: a stage imports earlier ones only. Those on one line are blind to each other.
PROFILER = [
    "config",
    "units flops",
    "chunks ticker background endings",
    "recorder",
    "frames overhead",
    "capture",
    "tracks",
    "spoolfile",
    "spool",
    "stored",
    "columns",
    "tree",
    "metrics",
    "details arrows",
    "events",
    "averages",
    "modules statistics",
    "samples",
    "diff merge",
    "table memory export",
    "report",
    "lists",
    "trace",
    "jsonstream arguments layouts",
    "kineto",
    "window",
    "children",
    "recover",
    "load",
    "annotate decorate steps emit roles execution_trace results",
    "run",
    "legacy",
    "profiler",
    "program",
    "control",
]
STAGES = {name: i for i, line in enumerate(PROFILER) for name in line.split()}

REQUIRED = {"numpy", "ml_dtypes"}
# Imported inside a function, or under `try`.
OPTIONAL = {"pandas", "pyarrow", "safetensors", "scipy", "tensorboard", "tensorboardX"}


class Import(NamedTuple):
    module: str  # the importing module, named from the package on
    target: str  # absolute name of what is imported
    line: int
    inside: bool  # a function's body
    guarded: bool  # by `try: ... except ImportError`
    typing: bool  # under `if TYPE_CHECKING`, hence not there at run time

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.target}"


def read_package() -> dict[str, str]:
    """Return the source of each module, by its name from the package on."""
    return {module_name(path.relative_to(SOURCE)): path.read_text() for path in sorted(SOURCE.rglob("*.py"))}


def module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts) or "."


def layer_of(module: str) -> str | None:
    """Return a module's layer: of the table's entries that cover it the longest decides."""
    entries = {entry: layer for layer, names in LAYERS.items() for entry in names.split()}
    if module in entries:
        return entries[module]
    packages = [module.rsplit(".", cut)[0] + ".*" for cut in range(module.count(".") + 1)]
    return next((entries[package] for package in packages if package in entries), None)


def stage_of(module: str) -> str | None:
    """Return the profiler stage a module belongs to: profiler.export.chrome is part of export."""
    name = module.removeprefix("profiler.").split(".")[0]
    return name if name in STAGES else None


def imports_of(module: str, source: str, modules: set[str]) -> list[Import]:
    found: list[Import] = []

    def visit(node: ast.AST, inside: bool, guarded: bool, typing: bool) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom):
            targets = targets_of(module, node, modules)
            found.extend(Import(module, target, node.lineno, inside, guarded, typing) for target in targets)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            inside = True
        if isinstance(node, ast.Try) and any("ImportError" in names_in(handler.type) for handler in node.handlers):
            guarded = True
        if isinstance(node, ast.If) and "TYPE_CHECKING" in names_in(node.test):
            typing = True
        for child in ast.iter_child_nodes(node):
            visit(child, inside, guarded, typing)

    visit(ast.parse(source), False, False, False)
    return found


def names_in(node: ast.AST | None) -> set[str]:
    if node is None:
        return set()
    nodes = list(ast.walk(node))
    return {n.id for n in nodes if isinstance(n, ast.Name)} | {n.attr for n in nodes if isinstance(n, ast.Attribute)}


def targets_of(module: str, node: ast.Import | ast.ImportFrom, modules: set[str]) -> Iterator[str]:
    """Name what a statement imports in full; `from package import module` names the module."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    base = node.module or ""
    if node.level:
        path = [PACKAGE, *(module.split(".") if module != "." else [])]
        is_package = module == "." or any(other.startswith(module + ".") for other in modules)
        kept = path[: len(path) - node.level + is_package]
        base = ".".join([*kept, *([base] if base else [])])
    for alias in node.names:
        full = f"{base}.{alias.name}"
        yield full if full.removeprefix(PACKAGE + ".") in modules else base


def own(target: str) -> str | None:
    """Name a target from the package on, or None when it is somebody else's."""
    if target == PACKAGE:
        return "."
    return target.removeprefix(PACKAGE + ".") if target.startswith(PACKAGE + ".") else None


def violation(statement: Import) -> str | None:
    """Say what is wrong with an import, if anything."""
    target = own(statement.target)
    if target is None:
        return foreign_violation(statement)
    if statement.typing:
        return None
    if statement.inside:
        return f"{statement} inside a function"
    layer, other = layer_of(statement.module), layer_of(target)
    if layer is None or other is None:
        return None  # test_every_module_has_a_layer names it
    if other not in MAY_IMPORT[layer]:
        return f"{statement}: {layer} may not import {other}"
    if layer == other == "P":
        return stage_violation(statement, target)
    return None


def foreign_violation(statement: Import) -> str | None:
    root = statement.target.split(".")[0]
    if root in OPTIONAL:
        allowed = statement.inside or statement.guarded or statement.typing
        return None if allowed else f"{statement}, an optional package, without a guard"
    if root not in REQUIRED and root not in sys.stdlib_module_names:
        return f"{statement}, which is neither required nor optional"
    return f"{statement} inside a function" if statement.inside else None


def stage_violation(statement: Import, target: str) -> str | None:
    stage, other = stage_of(statement.module), stage_of(target)
    if stage is None or other is None or stage == other or STAGES[other] < STAGES[stage]:
        return None
    return f"{statement}: the profiler's {stage} comes before or beside its {other}"


def unknown(modules: set[str]) -> list[str]:
    """Return the modules that stand in no layer, or in no stage of the profiler."""
    layers = {module: layer_of(module) for module in sorted(modules)}
    lost = [module for module, layer in layers.items() if layer is None]
    return lost + [module for module, layer in layers.items() if layer == "P" and stage_of(module) is None]


def all_imports(package: dict[str, str]) -> list[Import]:
    return [found for module, source in package.items() for found in imports_of(module, source, set(package))]


def violations(package: dict[str, str]) -> list[str]:
    return [wrong for found in all_imports(package) if (wrong := violation(found))]


def cycle(package: dict[str, str]) -> list[str]:
    """Return modules that import each other in a ring; importing a facade's names does not count for the facade."""
    graph: dict[str, set[str]] = {module: set() for module in package}
    for found in all_imports(package):
        target = own(found.target)
        if target in graph and target != found.module and not found.typing and layer_of(found.module) != "F":
            graph[found.module].add(target)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_every_module_has_a_layer() -> None:
    lost = unknown(set(read_package()))
    assert not lost, f"add to LAYERS or PROFILER in this file: {', '.join(lost)}"


def test_imports_follow_the_layers() -> None:
    wrong = violations(read_package())
    assert not wrong, "\n".join(wrong)


def test_no_modules_import_each_other() -> None:
    ring = cycle(read_package())
    assert not ring, " → ".join(ring)


@pytest.mark.parametrize(
    ("module", "layer"),
    [
        (".", "F"),
        ("_tap", "L0"),
        ("kernels", "L0"),
        ("kernels.conv", "L0"),
        ("autograd.engine", "L2"),
        ("ops.pointwise", "L3"),
        ("nn.functional", "L4"),
        ("linalg", "L4"),
        ("nn", "L5"),
        ("nn.modules.linear", "L5"),
        ("profiler.export.chrome", "P"),
        ("autograd", "F"),
        ("autograd.profiler", "F"),
        ("profiler", "F"),
        ("_tape", None),
        ("autograd.extra", None),
    ],
)
def test_a_module_finds_its_layer(module: str, layer: str | None) -> None:
    assert layer_of(module) == layer


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("_tensor", "from mindtorch_v2 import _op"),
        ("_tensor", "from . import _op"),
        ("_tensor", "from ._op import op"),
        ("_tensor", "import mindtorch_v2._op"),
        ("autograd.node", "from .._op import op"),
        ("autograd.node", "from .functional import jacobian"),
        ("ops.pointwise", "from ..profiler.recorder import Recorder"),
        ("nn.linear", "import mindtorch_v2 as torch"),
        ("profiler.columns", "from .._tensor import Tensor"),
        ("profiler.columns", "from .events import EventList"),
        ("profiler.table", "from .report import html"),
        ("profiler.export.chrome", "from ..memory import timeline"),
        ("_op", "def f():\n    from ._tensor import Tensor"),
        ("_op", "def f():\n    import json"),
        ("_op", "import pandas"),
        ("_op", "import torch"),
        ("_op", "def f():\n    import torch"),
    ],
)
def test_a_wrong_import_is_found(module: str, source: str) -> None:
    names = "_op _tensor autograd.functional nn profiler.events profiler.memory profiler.report profiler.recorder"
    assert len(violations(dict.fromkeys(names.split(), "") | {".": "", "profiler.export": "", module: source})) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("_op", "from ._tensor import Tensor\nimport numpy as np\nimport json"),
        ("_tensor", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ._op import op"),
        ("profiler.events", "from .columns import EventColumns\nfrom .._tap import tap"),
        ("profiler.export.chrome", "from . import writer\nfrom ..events import EventList"),
        ("profiler.export.chrome", "def f():\n    import pyarrow.parquet"),
        ("profiler.export.chrome", "try:\n    import pyarrow\nexcept ImportError:\n    pyarrow = None"),
        (".", "from ._op import op\nfrom .profiler import profile"),
    ],
)
def test_a_right_import_is_left_alone(module: str, source: str) -> None:
    names = "_op _tensor _tap profiler profiler.columns profiler.events profiler.export profiler.export.writer"
    assert violations(dict.fromkeys(names.split(), "") | {module: source}) == []


def test_a_module_without_a_place_is_named() -> None:
    assert unknown({"_tap", "_helpers", "profiler.tree", "profiler.extra"}) == ["_helpers", "profiler.extra"]


def test_a_ring_of_imports_is_found() -> None:
    ring = {"_tensor": "from . import _random", "_random": "from ._tensor import Tensor"}
    assert set(cycle(ring)) == {"_tensor", "_random"}
    assert cycle({"_tensor": "from . import _random", "_random": ""}) == []
