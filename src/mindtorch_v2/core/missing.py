"""What happens when a program asks for a name or a module that is not there: an error that says so, says that
mindtorch_v2 does not provide it, and names the nearest one that is. Submodules are imported when first asked for, and
modules that live elsewhere here are found under torch's path.
"""

from __future__ import annotations

import difflib
import dis
import importlib
import importlib.machinery
import importlib.util
import pkgutil
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .addresses import ADDRESSES, HOMES, INNER, MOVED, other_paths, our_path, torch_path

PACKAGE = __name__.partition(".")[0]
# Modules that torch has as packages: an address inside one is looked for only if it has a `__path__`.
_PARENTS = {f"{PACKAGE}.{our_path(address.rpartition('.')[0])}" for address in ADDRESSES if "." in address}


def spoken(name: str) -> str:
    """A module's name as programs write it: `torch.cuda` for `mindtorch_v2.compat.cuda`."""
    root, dot, path = name.partition(".")
    return "torch" + dot + torch_path(path) if root == PACKAGE else name


def torch_module(module: str, name: str) -> str:
    """The module in which torch defines what our `module` defines as `name`; other people's modules stay as they are."""
    root, _, path = module.partition(".")
    if root != PACKAGE:
        return module
    home = HOMES.get((path, name.partition(".")[0]))
    return spoken(module) if home is None else f"torch.{home}".rstrip(".")


def is_ours(module: str) -> bool:
    """Whether a name of a module leads into this package, also under torch's name."""
    root = module.partition(".")[0]
    return root == PACKAGE or (root == "torch" and sys.modules.get("torch") is sys.modules.get(PACKAGE))


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that looks most like `name`, if one does."""
    known: dict[str, list[str]] = {}
    for candidate in candidates:
        if not candidate.startswith("_") or name.startswith("_"):
            known.setdefault(candidate.lower(), []).append(candidate)
    found = difflib.get_close_matches(name.lower(), known, 1, 0.6)
    # Of `adam` and `Adam` the one written as `name` is.
    return max(known[found[0]], key=lambda c: difflib.SequenceMatcher(None, c, name).ratio()) if found else None


def message(place: str, name: str, candidates: Iterable[str], imported: bool = False) -> str:
    """The sentence for a name that `place` lacks; `imported` when it was asked for by `from place import name`."""
    module = spoken(place)
    requested = (
        f"cannot import name '{name}' from '{module}'" if imported else f"module '{module}' has no attribute '{name}'"
    )
    text = f"{requested}: mindtorch_v2 does not provide {module}.{name}"
    found = nearest(name, candidates)
    return text if found is None else f"{text}. The nearest name that is there: {module}.{found}"


_IMPORT_FROM = dis.opmap["IMPORT_FROM"]


def _by_import(frame: types.FrameType) -> bool:
    """Whether the frame is at a `from … import name`. Its AttributeError would be replaced, text and all."""
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == _IMPORT_FROM


def submodules(module: types.ModuleType) -> list[str]:
    """Names of the modules directly inside a package, as torch has them; [] for a plain module."""
    names = [found.name for found in pkgutil.iter_modules(getattr(module, "__path__", []))]
    own = module.__spec__.name if module.__spec__ is not None else module.__name__
    path = own.partition(".")[2]
    moved = [address.rpartition(".")[2] for address in MOVED if address.rpartition(".")[0] == path]
    return moved + (names if path else [name for name in names if name not in INNER])


def attribute_finder(module_name: str, elsewhere: Mapping[str, str] | None = None) -> Callable[[str], Any]:
    """A module's `__getattr__`: imports a submodule of that name, takes a name from the module `elsewhere` says it
    lives in (imported only now), or raises the error above."""

    def __getattr__(name: str) -> Any:
        module = sys.modules[module_name]
        home = elsewhere.get(name) if elsewhere is not None else None
        if home is not None:
            found = getattr(importlib.import_module(f"{PACKAGE}.{home}"), name)
            setattr(module, name, found)
            return found
        dunder = name.startswith("__")
        if name == "torch":  # torch's own modules import it, and programs have found it there (torch.sparse.torch.eye)
            return sys.modules[PACKAGE]
        path = torch_path(f"{module_name}.{name}".partition(".")[2])
        if path in ADDRESSES or path in MOVED:
            return importlib.import_module(f"{PACKAGE}.{path}")
        if not dunder and getattr(module, "__path__", None) and importlib.util.find_spec(f"{module_name}.{name}"):
            try:
                return importlib.import_module(f"{module_name}.{name}")
            except ModuleNotFoundError as error:  # a package that this module is a bridge to is not installed
                raise AttributeError(str(error), name=name, obj=module) from error
        names = () if dunder else [n for n in [*vars(module), *submodules(module)] if not n.startswith("_abc")]
        if not dunder and _by_import(sys._getframe(1)):
            raise ImportError(message(module_name, name, names, True), name=module_name, path=module.__file__)
        raise AttributeError(message(module_name, name, names), name=name, obj=module)

    return __getattr__


def cover(module: types.ModuleType) -> None:
    """Give a module of ours the `__getattr__` above, unless it has one."""
    if "__getattr__" not in vars(module):
        module.__getattr__ = attribute_finder(module.__name__)  # type: ignore[method-assign]
    for path in other_paths(module.__name__.partition(".")[2]):
        parent, _, name = f"{PACKAGE}.{path}".rpartition(".")
        sys.modules.setdefault(f"{parent}.{name}", module)
        if path in MOVED and parent in sys.modules:
            vars(sys.modules[parent]).setdefault(name, module)
    if module.__name__ in _PARENTS and not hasattr(module, "__path__"):
        module.__path__ = []


def cover_all() -> None:
    """Cover every public module of ours that is loaded."""
    for name, module in list(sys.modules.items()):
        if name == PACKAGE or name.startswith(PACKAGE + "."):
            cover(module)


# What is done to each module of ours as soon as it is loaded.
AFTER_LOADING: list[Callable[[types.ModuleType], None]] = [cover]


class _CoveredLoader(importlib.machinery.SourceFileLoader):
    """Covers a module as soon as it is loaded."""

    def exec_module(self, module: types.ModuleType) -> None:
        super().exec_module(module)
        for step in AFTER_LOADING:
            step(module)


class Alias:
    """Loads the module of another path, which keeps its own name and spec, under the path asked for."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.own_spec: Any = None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = importlib.import_module(self.name)
        self.own_spec = module.__spec__
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        module.__spec__ = self.own_spec
        cover(module)

    def get_code(self, fullname: str) -> Any:
        """For `-m torch.x`: the code of our module."""
        spec = importlib.util.find_spec(self.name)
        return spec.loader.get_code(self.name) if spec is not None and spec.loader is not None else None  # type: ignore[attr-defined]


def alias(fullname: str, ours: str) -> importlib.machinery.ModuleSpec | None:
    """The spec with which the module `ours` is found as `fullname` too; None if there is no such module."""
    found = importlib.util.find_spec(ours)
    if found is None:
        return None
    loader: Any = Alias(ours)
    spec = importlib.machinery.ModuleSpec(fullname, loader, origin=found.origin)
    spec.submodule_search_locations = found.submodule_search_locations
    return spec


class CoveredModules:
    """The first finder on `sys.meta_path`: our modules are covered however they are imported, by `import` or by name.

    After `sys.modules["torch"] = mindtorch_v2` the modules of torch are ours too, instead of second copies of them.
    """

    @staticmethod
    def find_spec(
        fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith(PACKAGE + "."):
            is_ours = fullname.startswith("torch.") and sys.modules.get("torch") is sys.modules.get(PACKAGE)
            return alias(fullname, PACKAGE + fullname.removeprefix("torch")) if is_ours else None
        address = fullname.removeprefix(PACKAGE + ".")
        home = our_path(address)
        if address in ADDRESSES:
            loader: Any = Alias(f"{PACKAGE}.{home}" if home else PACKAGE)
            return importlib.machinery.ModuleSpec(fullname, loader)
        if home != address:
            return alias(fullname, f"{PACKAGE}.{home}")
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and type(spec.loader) is importlib.machinery.SourceFileLoader:
            spec.loader = _CoveredLoader(spec.loader.name, spec.loader.path)
        return spec


class MissingModules:
    """The last finder on `sys.meta_path`: explains a module of ours that nobody found, and covers no other."""

    @staticmethod
    def find_spec(
        fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith(PACKAGE + ".") or not _importing():
            return None
        raise missing_module(fullname)


def _importing() -> bool:
    """Whether the finder was asked by an import. `importlib.util.find_spec` must get None instead of an error."""
    return sys._getframe(3).f_code.co_name == "_find_and_load_unlocked"


def missing_module(fullname: str) -> ModuleNotFoundError:
    """The error for a module that neither torch's path nor ours leads to."""
    parent, _, name = fullname.rpartition(".")
    place = sys.modules.get(parent)
    text = f"No module named '{spoken(fullname)}': mindtorch_v2 does not provide it"
    found = nearest(name, submodules(place)) if place is not None else None
    if found is not None:
        text += f". The nearest module that is there: {spoken(parent)}.{found}"
    return ModuleNotFoundError(text, name=fullname)


def install() -> None:
    """Explain missing modules and names from now on."""
    if not any(finder is MissingModules for finder in sys.meta_path):
        sys.meta_path.insert(0, CoveredModules)
        sys.meta_path.append(MissingModules)
