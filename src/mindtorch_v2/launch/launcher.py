"""Runs a program that says `import torch` with mindtorch_v2 in torch's place.

It owns the import hook, the names that modules and classes give as their own, what child processes inherit, and running
a script or module as `__main__` the way plain `python` does. It does not know what the package provides.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import io
import os
import runpy
import sys
import types
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from ..core import machinery, missing
from ..kernels import floating
from .stepping import StepFunction

PACKAGE = __name__.partition(".")[0]
# On the path of every child: a `torch` package that installs this hook, and torch's entry for importlib.metadata.
SHIM = str(Path(__file__).parent / "shim")

USAGE = """usage: python -m mindtorch_v2 [-m | -c] program [arguments ...]

Run a Python script, with -m a module, with -c a text, whose `import torch` gets mindtorch_v2.
"""
_OPTIONS = ("-m", "-c")


# --- the import hook --------------------------------------------------------------------------------------------------


def our_name(fullname: str) -> str | None:
    """`mindtorch_v2.nn` for `torch.nn`; None for what is not torch's."""
    root, dot, rest = fullname.partition(".")
    return PACKAGE + dot + rest if root == "torch" else None


class TorchFinder:
    """Finds `torch` and every `torch.x.y` in this package, before any installed torch can be found."""

    @staticmethod
    def find_spec(
        fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        ours = our_name(fullname)
        return None if ours is None else missing.alias(fullname, ours)


class _MissingTorchModules:
    """After every other finder: explains a torch module that is not there."""

    @staticmethod
    def find_spec(
        fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        ours = our_name(fullname)
        if ours is not None and ours != PACKAGE and missing._importing():
            error = missing.missing_module(ours)
            error.name = fullname
            raise error
        return None


def install() -> None:
    """Let `torch` mean this package in this process and in the Python processes it starts."""
    if not any(finder is TorchFinder for finder in sys.meta_path):
        sys.meta_path.insert(0, TorchFinder)
        sys.meta_path.append(_MissingTorchModules)
        missing.AFTER_LOADING.append(_use_torch_names)
        floating.silence_own_warnings("torch")
        for name, module in list(sys.modules.items()):
            if name == PACKAGE or name.startswith(PACKAGE + "."):
                _use_torch_names(module)
    if SHIM not in sys.path:  # where PYTHONPATH puts it
        sys.path.insert(min(1, len(sys.path)), SHIM)
    inherited = os.environ.get("PYTHONPATH", "")
    if SHIM not in inherited.split(os.pathsep):
        os.environ["PYTHONPATH"] = SHIM + (os.pathsep + inherited if inherited else "")


# --- names ------------------------------------------------------------------------------------------------------------


def _use_torch_names(module: types.ModuleType) -> None:
    """Let a module and what it defines give torch's names as their own, since libraries compare them
    (`type(x).__module__`), and let the module be found by that name. `__package__` and `__spec__` stay: imports go by
    them."""
    own = module.__spec__.name if module.__spec__ is not None else module.__name__
    module.__name__ = missing.spoken(own)
    sys.modules[module.__name__] = module
    for thing in list(vars(module).values()):
        # By its type: operators of the recorder's compiled part call themselves functions, but cannot be changed.
        if type(thing) is types.FunctionType or issubclass(type(thing), type):
            home = thing.__module__
            if home in (own, PACKAGE):
                thing.__module__ = missing.torch_module(home, thing.__qualname__)


# --- running a program ------------------------------------------------------------------------------------------------


def _fresh_main() -> types.ModuleType:
    """An empty `__main__`: the program must not see the launcher's names."""
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = sys.modules["builtins"]
    sys.modules["__main__"] = main
    return main


def _set_first_path(entry: str) -> None:
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = entry


def _read_script(path: str) -> bytes:
    try:
        with io.open_code(os.path.abspath(path)) as file:
            return file.read()
    except OSError as error:
        sys.stderr.write(
            f"{sys.executable}: can't open file {os.path.abspath(path)!r}: [Errno {error.errno}] {error.strerror}\n"
        )
        raise SystemExit(2) from None


def _run_script(path: str, step: StepFunction | None) -> None:
    if os.path.isdir(path) or zipfile.is_zipfile(path):
        _set_first_path(path)
        _fresh_main()
        runpy._run_module_as_main("__main__", False)  # type: ignore[attr-defined]
        return
    source = _read_script(path)
    _set_first_path(os.path.dirname(os.path.realpath(path)))
    main = _fresh_main()
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    main.__dict__.update(__file__=os.path.abspath(path), __cached__=None, __loader__=loader, __spec__=None)
    exec(_compiled(source, os.path.abspath(path), step), main.__dict__)


def _compiled(source: bytes, path: str, step: StepFunction | None) -> types.CodeType:
    if step is not None and not step.module:
        return step.compiled(source, path)
    return compile(source, path, "exec", dont_inherit=True)


def _run_module(name: str, step: StepFunction | None) -> None:
    main = _fresh_main()
    if step is None or step.module:
        runpy._run_module_as_main(name)  # type: ignore[attr-defined]
        return
    _, spec, _ = runpy._get_module_details(name)  # type: ignore[attr-defined]
    sys.argv[0] = spec.origin
    main.__dict__.update(__file__=spec.origin, __cached__=None, __loader__=spec.loader, __spec__=spec)
    main.__dict__["__package__"] = spec.parent
    exec(_compiled(_read_script(spec.origin), spec.origin, step), main.__dict__)


def _run_text(source: str) -> None:
    _set_first_path("")
    main = _fresh_main()
    main.__dict__.update(__spec__=None, __loader__=importlib.machinery.BuiltinImporter)
    exec(compile(source, "<string>", "exec", dont_inherit=True), main.__dict__)


def _own_part(traceback: types.TracebackType | None) -> types.TracebackType | None:
    """The traceback from the program's first frame on, without what runs inside of operators."""
    part = last = traceback
    while part is not None:
        if part.tb_frame.f_code.co_filename == __file__:
            last = part.tb_next
        part = part.tb_next
    return _without_machinery(last)


def _without_machinery(traceback: types.TracebackType | None) -> types.TracebackType | None:
    kept = []
    while traceback is not None:
        if not machinery.is_machinery(traceback.tb_frame.f_code.co_filename):
            kept.append(traceback)
        traceback = traceback.tb_next
    rest = None
    for part in reversed(kept):
        rest = types.TracebackType(rest, part.tb_frame, part.tb_lasti, part.tb_lineno)
    return rest


def _hide_launcher(error: BaseException) -> None:
    """Have the uncaught `error` reported without the launcher's frames, by whatever hook the program has set."""
    report = sys.excepthook
    own = _own_part(error.__traceback__)

    def without_launcher(kind: type[BaseException], value: BaseException, _: Any) -> None:
        sys.excepthook = report
        report(kind, value.with_traceback(own), own)

    for around in _behind(error):
        around.__traceback__ = _without_machinery(around.__traceback__)
    sys.excepthook = without_launcher


def _behind(error: BaseException) -> Iterator[BaseException]:
    """The errors that one was raised from, or while they were handled."""
    seen = {id(error)}
    waiting = [error.__cause__, error.__context__]
    while waiting:
        found = waiting.pop()
        if found is not None and id(found) not in seen:
            seen.add(id(found))
            waiting += [found.__cause__, found.__context__]
            yield found


def run(arguments: list[str], *, ours: bool = True, step: StepFunction | None = None) -> None:
    """Run `script.py [args…]`, `-m module [args…]` or `-c text [args…]` as `__main__`, with torch meaning this package or,
    if it is not to be `ours`, the installed one. Calls of a function may be counted as steps.

    The program's SystemExit and exceptions come out of it, hence exit codes and signals are plain Python's.
    """
    if ours:
        install()
    if step is not None and step.module:
        step.install()
    option, rest = arguments[0], arguments[1:]
    sys.argv[:] = rest if option == "-m" else [option, *rest[1:]] if option == "-c" else arguments
    try:
        if option == "-m":
            _run_module(sys.argv[0], step)
        elif option == "-c":
            _run_text(rest[0])
        else:
            _run_script(sys.argv[0], step)
    except SystemExit:
        raise
    except BaseException as error:
        _hide_launcher(error)
        raise


def main(arguments: list[str]) -> None:
    """The command `python -m mindtorch_v2`."""
    if arguments[:1] in (["-h"], ["--help"]):
        sys.stdout.write(USAGE)
        return
    option = arguments[0] if arguments else ""
    if not option or (option in _OPTIONS and len(arguments) == 1) or (option[0] == "-" and option not in _OPTIONS):
        _usage_error(arguments)
    run(arguments)


def _usage_error(arguments: list[str]) -> NoReturn:
    if arguments and arguments[0] not in _OPTIONS:
        sys.stderr.write(f"mindtorch_v2: unknown option {arguments[0]}\n")
    with contextlib.suppress(BrokenPipeError):
        sys.stderr.write(USAGE)
    raise SystemExit(2)
