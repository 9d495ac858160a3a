"""What the source of the profiled program tells beyond what was recorded: which loop a line is in, which line calls a
function or imports a module. Files that are not there, or have changed since, tell nothing."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from functools import cached_property

from ..capture.capture import Capture
from .origins import Frame, script_of

_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LARGEST = 2_000_000


class Sources:
    """The source files of one capture's program."""

    def __init__(self, capture: Capture) -> None:
        self._newest = capture.epoch_ns / 1e9 + 1
        self._script = script_of(capture.metadata)
        self._trees: dict[str, ast.Module | None] = {}

    @cached_property
    def _folders(self) -> list[str]:
        return [folder for folder in (os.path.dirname(self._script), os.getcwd(), *sys.path) if folder]

    def _tree(self, file: str) -> ast.Module | None:
        if file not in self._trees:
            self._trees[file] = self._read(file)
        return self._trees[file]

    def _read(self, file: str) -> ast.Module | None:
        for folder in self._folders:
            path = os.path.join(folder, file)
            try:
                if not file.endswith(".py") or not os.path.isfile(path) or os.path.getsize(path) > _LARGEST:
                    continue
                if os.path.getmtime(path) > self._newest:
                    return None
                with open(path, "rb") as opened:
                    return ast.parse(opened.read())
            except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
                continue  # whatever is wrong with the file, the recording has been told without it
        return None

    def loop_around(self, frame: Frame) -> Frame:
        """The line where the innermost loop around a line begins; the line itself where no loop is known."""
        tree = self._tree(frame.file)
        if tree is None:
            return frame
        found = 0
        for node in ast.walk(tree):
            if isinstance(node, _LOOPS) and node.lineno <= frame.line <= (node.end_lineno or node.lineno):
                found = max(found, node.lineno)
        return frame._replace(line=found) if found else frame

    def carries(self, frame: Frame) -> bool:
        """Whether turns of the loop around a line may need what earlier turns computed; False only where the source shows
        that no name is set in a turn from its own value before."""
        tree = self._tree(frame.file)
        around = [] if tree is None else [
            node for node in ast.walk(tree)
            if isinstance(node, _LOOPS) and node.lineno <= frame.line <= (node.end_lineno or node.lineno)
        ]  # fmt: skip
        if not around:
            return True
        body = getattr(max(around, key=lambda node: node.lineno), "body", [])
        return any(_uses_before_setting(body))

    def call_in(self, frame: Frame, callee: str) -> Frame:
        """The line of a function that calls another, where it is the only one."""
        body = self._function(frame)
        lines = {
            node.lineno for node in ast.walk(body)
            if isinstance(node, ast.Call) and _last_name(node.func) == callee
        } if body is not None else set()  # fmt: skip
        return frame._replace(line=lines.pop(), exact=True) if len(lines) == 1 else frame

    def _function(self, frame: Frame) -> ast.AST | None:
        tree = self._tree(frame.file)
        if tree is None or frame.name == "<module>":
            return tree
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        for node in ast.walk(tree):
            if isinstance(node, kinds) and node.name == frame.name:
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                if first <= frame.line <= (node.end_lineno or first):
                    return node
        return None

    def import_of(self, file: str, module: str) -> int:
        """The line of a file that imports a module; 0 if it is not known."""
        tree = self._tree(file)
        top = module.partition(".")[0]
        for node in ast.walk(tree) if tree is not None else ():
            names = [name.name for name in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            if isinstance(node, (ast.Import, ast.ImportFrom)) and any(n.partition(".")[0] == top for n in names):
                return node.lineno
        return 0


def _uses_before_setting(body: list[ast.stmt]) -> Iterator[bool]:
    """For each assignment in the body of a loop: whether it sets something that the body reads up to there."""
    read: set[str] = set()
    for statement in body:
        nodes = [node for node in ast.walk(statement) if isinstance(node, (ast.Name, ast.Attribute))]
        read |= {ast.unparse(node) for node in nodes if isinstance(node.ctx, ast.Load)}
        yield any(isinstance(node.ctx, ast.Store) and ast.unparse(node) in read for node in nodes)
        # What a turn sets anew before it reads it is its own.
        read -= {ast.unparse(node) for node in nodes if isinstance(node.ctx, ast.Store)}


def _last_name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""
