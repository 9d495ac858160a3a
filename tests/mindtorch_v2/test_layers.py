"""Holds the layers: which folder may import which, read from the source without importing anything.

A folder is a layer; docs/architecture.md explains them. A new module needs no entry here, a new folder does.
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

# Folders from the first on: each imports itself and those on the lines before it. Modules that lie in no folder
# (`linalg`, `func`, …) are named as if they were one.
ORDER = """
core
kernels
autograd
dispatch
ops
binding
amp distributions fft func hub library linalg masked multiprocessing nn optim overrides random return_types serialization \
signal sparse special testing torch_version types utils version _utils
compat
"""
# The profiler's folders likewise: record … api, then the modules of `profiler` itself. Of the rest they know `core`.
PROFILER = "record capture analyse read advise export report api"
BESIDE = {"launch": {"core", "kernels"}, "cli": {"core", "launch", "profiler", "version"}}
# They give names of everything and hold no logic; nobody imports them but each other.
FACADES = {
    "",
    "__main__",
    "_C",
    "autograd.profiler",
    "autograd.profiler_util",
    "autograd.profiler_legacy",
    "profiler.__main__",
}

LAYERS = {name: place for place, line in enumerate(ORDER.strip().splitlines()) for name in line.split()}
STAGES = {name: place for place, name in enumerate(PROFILER.split())}

REQUIRED = {"numpy", "ml_dtypes"}
# Imported inside a function, or under `try`.
OPTIONAL = {
    *("duckdb", "msgspec", "pandas", "pyarrow", "safetensors", "scipy", "tensorboard", "tensorboardX", "zstandard"),
}


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
    """Return the source of each module, by its name from the package on; that of the package itself is empty."""
    paths = [path for path in sorted(SOURCE.rglob("*.py")) if "shim" not in path.parts]
    return {module_name(path.relative_to(SOURCE)): path.read_text() for path in paths}


def module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_facade(module: str) -> bool:
    return module in FACADES or module.partition(".")[0] in FACADES


def stage_of(module: str) -> int:
    """The place of a module of the profiler among its stages; those of `profiler` itself come last."""
    return STAGES.get(module.split(".")[1] if "." in module else "", len(STAGES))


def may_import(module: str, target: str) -> bool:
    """Whether a module may import another, by the folders they lie in."""
    if is_facade(module) or is_facade(target):
        return is_facade(module)
    folder, other = module.partition(".")[0], target.partition(".")[0]
    if folder == other:
        return folder != "profiler" or stage_of(target) <= stage_of(module)
    if folder == "profiler":
        return other == "core"
    if folder in BESIDE:
        return other in BESIDE[folder]
    return LAYERS.get(other, len(LAYERS)) <= LAYERS[folder]


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
        path = [PACKAGE, *(module.split(".") if module else [])]
        is_package = not module or any(other.startswith(module + ".") for other in modules)
        kept = path[: len(path) - node.level + is_package]
        base = ".".join([*kept, *([base] if base else [])])
    for alias in node.names:
        full = f"{base}.{alias.name}"
        yield full if full.removeprefix(PACKAGE + ".") in modules else base


def own(target: str) -> str | None:
    """Name a target from the package on, or None when it is somebody else's."""
    if target == PACKAGE:
        return ""
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
    return None if may_import(statement.module, target) else f"{statement}, which is of a later layer"


def foreign_violation(statement: Import) -> str | None:
    root = statement.target.split(".")[0]
    if root in OPTIONAL:
        allowed = statement.inside or statement.guarded or statement.typing
        return None if allowed else f"{statement}, an optional package, without a guard"
    if root not in REQUIRED and root not in sys.stdlib_module_names:
        return f"{statement}, which is neither required nor optional"
    return f"{statement} inside a function" if statement.inside else None


def unknown(modules: set[str]) -> list[str]:
    """Return the modules whose folder stands in no layer, or in no stage of the profiler."""
    folders = {*LAYERS, *BESIDE, "profiler"}
    lost = {module for module in modules if not is_facade(module) and module.partition(".")[0] not in folders}
    stages = {module for module in modules if module.startswith("profiler.") and module.count(".") > 1}
    return sorted(lost | {module for module in stages if module.split(".")[1] not in STAGES})


def all_imports(package: dict[str, str]) -> list[Import]:
    return [found for module, source in package.items() for found in imports_of(module, source, set(package))]


def violations(package: dict[str, str]) -> list[str]:
    return [wrong for found in all_imports(package) if (wrong := violation(found))]


def cycle(package: dict[str, str]) -> list[str]:
    """Return modules that import each other in a ring; importing a facade's names does not count for the facade."""
    graph: dict[str, set[str]] = {module: set() for module in package}
    for found in all_imports(package):
        target = own(found.target)
        if target in graph and target != found.module and not found.typing and not is_facade(found.module):
            graph[found.module].add(target)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_every_folder_has_a_layer() -> None:
    lost = unknown(set(read_package()))
    assert not lost, f"add their folder to ORDER or PROFILER in this file: {', '.join(lost)}"


def test_imports_follow_the_layers() -> None:
    wrong = violations(read_package())
    assert not wrong, "\n".join(wrong)


def test_no_modules_import_each_other() -> None:
    ring = cycle(read_package())
    assert not ring, " → ".join(ring)


def test_folders_stay_small() -> None:
    """At most 20 files in the package's own folder and 45 in any other, tests included."""
    folders: dict[Path, int] = {}
    for top in (SOURCE, Path(__file__).parents[1]):
        for path in top.rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".so", ".pyd", ".pyc"):
                folders[path.parent] = folders.get(path.parent, 0) + 1
    large = {str(path): count for path, count in folders.items() if count > (20 if path == SOURCE else 45)}
    assert large == {}


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("core.tensor", "from mindtorch_v2.dispatch import op"),
        ("core.tensor", "from ..dispatch import op"),
        ("core.tensor", "from ..dispatch.op import op"),
        ("core.tensor", "import mindtorch_v2.dispatch.op"),
        ("autograd.node", "from ..dispatch.op import op"),
        ("autograd.node", "from .profiler import profile"),
        ("ops.pointwise.arithmetic", "from ...profiler.record.recorder import Recorder"),
        ("nn.linear", "import mindtorch_v2 as torch"),
        ("nn.linear", "from ..compat.cuda import Stream"),
        ("profiler.analyse.columns", "from ...dispatch.op import Op"),
        ("profiler.analyse.columns", "from ..api.lists import EventList"),
        ("profiler.export.chrome", "from ..report import page"),
        ("profiler.api.run", "from ..profiler import profile"),
        ("dispatch.op", "def f():\n    from ..core.tensor import Tensor"),
        ("dispatch.op", "def f():\n    import json"),
        ("dispatch.op", "import pandas"),
        ("dispatch.op", "import torch"),
        ("dispatch.op", "def f():\n    import torch"),
    ],
)
def test_a_wrong_import_is_found(module: str, source: str) -> None:
    names = (
        "dispatch.op core.tensor autograd.profiler nn compat.cuda profiler.api.lists profiler.report profiler.profiler"
    )
    assert len(violations(dict.fromkeys(names.split(), "") | {"": "", "profiler.export": "", module: source})) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("dispatch.op", "from ..core.tensor import Tensor\nimport numpy as np\nimport json"),
        ("core.tensor", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..dispatch.op import op"),
        ("profiler.api.lists", "from ..analyse.columns import EventColumns\nfrom ...core.tap import SLOT"),
        ("profiler.export.chrome", "from . import writer\nfrom ..analyse.events import EventList"),
        ("profiler.export.chrome", "def f():\n    import pyarrow.parquet"),
        ("profiler.export.chrome", "try:\n    import pyarrow\nexcept ImportError:\n    pyarrow = None"),
        ("", "from .dispatch.op import op\nfrom .profiler import profile"),
    ],
)
def test_a_right_import_is_left_alone(module: str, source: str) -> None:
    names = "dispatch.op core.tensor core.tap profiler profiler.analyse.events profiler.export profiler.export.writer"
    assert violations(dict.fromkeys(names.split(), "") | {module: source}) == []


def test_a_module_without_a_place_is_named() -> None:
    modules = {"core.tap", "helpers.tap", "profiler.analyse.tree", "profiler.extra.tree"}
    assert unknown(modules) == ["helpers.tap", "profiler.extra.tree"]


def test_a_ring_of_imports_is_found() -> None:
    ring = {"core.tensor": "from . import random", "core.random": "from .tensor import Tensor"}
    assert set(cycle(ring)) == {"core.tensor", "core.random"}
    assert cycle({"core.tensor": "from . import random", "core.random": ""}) == []
