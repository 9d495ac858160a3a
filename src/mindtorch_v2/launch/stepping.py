"""Counts the calls of a function that the user names as steps (`--step-on`), without touching the program's files.

The function is wrapped where it is defined: in the program itself by a decorator added to its parsed source, in another
module when that has been loaded. A step ends where the outermost call returns. What a step is good for is not known here.
"""

from __future__ import annotations

import ast
import builtins
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..core import step_hooks

_DECORATOR = "__mindtorch_step__"
# These take the function, not what a decorator has made of it.
_BINDING = ("staticmethod", "classmethod")


class StepFunctionMissing(LookupError):
    """There is no function of the name that the user gave."""


class StepFunction:
    """`train_step` or `Trainer.step` in the program, `package.module:Trainer.step` elsewhere."""

    def __init__(self, name: str) -> None:
        self.module, _, self.function = name.rpartition(":")
        self.calls = 0
        self._depth = 0

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, whose outermost calls are steps."""

        @functools.wraps(function)
        def step(*args: Any, **kwargs: Any) -> Any:
            if self._depth == 0:
                step_hooks.announce(self, False)
            self._depth += 1
            try:
                return function(*args, **kwargs)
            finally:
                self._depth -= 1
                if self._depth == 0:
                    self.calls += 1
                    step_hooks.announce(self, True)

        return step

    # In the program itself

    def compiled(self, source: bytes, path: str) -> types.CodeType:
        """The program's code with the function wrapped; it keeps its lines."""
        tree = ast.parse(source, path)
        found = dict(_functions(tree.body))
        if self.function not in found:
            known = ", ".join(found) or "none"
            raise StepFunctionMissing(f"no function {self.function!r} in {path}; it has {known}")
        node = found[self.function]
        names = [isinstance(item, ast.Name) and item.id in _BINDING for item in node.decorator_list]
        decorator = ast.copy_location(ast.Name(_DECORATOR, ast.Load()), node)
        node.decorator_list.insert(names.index(True) + 1 if True in names else 0, decorator)
        setattr(builtins, _DECORATOR, self.wrap)
        return compile(tree, path, "exec", dont_inherit=True)

    # In a module

    def install(self) -> None:
        """Wrap the function of a module as soon as that is loaded."""
        sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.module:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Wrapping(spec.loader, self)
        return spec

    def wrap_in(self, module: types.ModuleType) -> None:
        owner, _, name = self.function.rpartition(".")
        holder: Any = module
        for part in filter(None, owner.split(".")):
            holder = getattr(holder, part, None)
        found = vars(holder).get(name) if holder is not None else None
        kind = type(found) if isinstance(found, (staticmethod, classmethod)) else None
        function = found.__func__ if isinstance(found, (staticmethod, classmethod)) else found
        if not callable(function):
            raise StepFunctionMissing(f"no function {self.function!r} in the module {self.module}")
        wrapped = self.wrap(function)
        setattr(holder, name, wrapped if kind is None else kind(wrapped))


class _Wrapping(importlib.abc.Loader):
    """Loads a module as its loader does, then wraps the function in it."""

    def __init__(self, loader: Any, step: StepFunction) -> None:
        self._loader = loader
        self._step = step

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        made: types.ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: types.ModuleType) -> None:
        self._loader.exec_module(module)
        self._step.wrap_in(module)

    def __getattr__(self, name: str) -> Any:
        if name == "_loader":  # of an object that copy or pickle has not filled yet
            raise AttributeError(name)
        return getattr(self._loader, name)


def _functions(body: Sequence[ast.stmt], owner: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """The functions and methods that statements define, by qualified name; those inside functions are not reachable."""
    for node in body:
        if isinstance(node, ast.FunctionDef):
            yield owner + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node.body, f"{owner}{node.name}.")
        else:
            for part in ("body", "orelse", "finalbody"):
                yield from _functions(getattr(node, part, []), owner)
