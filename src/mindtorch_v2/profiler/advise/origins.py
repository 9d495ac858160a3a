"""Whose code a frame is: the user's, a library's or the interpreter's. It reads names of frames, and opens no files."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from typing import Any, NamedTuple

from ..capture.capture import Capture

# The keys that recordings name the packages that were installed, and the program, under.
LIBRARIES, SCRIPT = "libraries", "script"
_FRAME = re.compile(r"^(?P<file>.+)\((?P<line>\d+)\): (?P<name>.+)$", re.DOTALL)
_FOLDERS = re.compile(r"(^|[/\\])(site-packages|dist-packages|lib[/\\]python3[^/\\]*)[/\\]")
# Of recordings that do not say what was installed these are known not to be the user's, as is the standard library.
_KNOWN = frozenset(
    "mindtorch_v2 mindtorch_cli mindtorch torch numpy torchvision torchaudio transformers pandas scipy sklearn PIL tqdm "
    "matplotlib lightning pytorch_lightning accelerate datasets triton jax safetensors tokenizers".split()
)


class Frame(NamedTuple):
    """A line of code: `train.py:12` in `step`. `exact` where it is the line that ran, not where its function begins."""

    file: str
    line: int
    name: str
    exact: bool = True

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def text(self) -> str:
        if self.name == "<module>":
            return self.place if self.exact else f"in {self.file}"
        if self.name.startswith("<"):  # a comprehension or a lambda stands on its line
            return self.place
        return f"{self.place} in {self.name}" if self.exact else f"in {self.name} at {self.place}"


def frame_of(text: str, exact: bool = True) -> Frame | None:
    """`train.py(12): step` taken apart; None for names of built-in functions."""
    match = _FRAME.match(text)
    return None if match is None else Frame(match["file"], int(match["line"]), match["name"], exact)


def installed() -> list[str]:
    """The packages this process has loaded from where packages are installed."""
    roots = tuple(os.path.join(sysconfig.get_path(name), "") for name in ("purelib", "platlib"))
    files = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items()) if "." not in name}
    return sorted(
        name for name, file in files.items() if isinstance(file, str) and (file.startswith(roots) or _FOLDERS.search(file))
        and name not in sys.stdlib_module_names
    )  # fmt: skip


class Origins:
    """Tells the user's frames of one capture from those of libraries."""

    def __init__(self, capture: Capture) -> None:
        said = capture.metadata.get(LIBRARIES)
        if not isinstance(said, list):
            said = installed() if capture.pid == os.getpid() else []
        self._libraries = _KNOWN | frozenset(map(str, said))
        self._script = os.path.basename(str(capture.metadata.get(SCRIPT) or ""))
        self._known: dict[str, bool] = {}

    def is_users(self, text: str) -> bool:
        """Whether a frame names a line of the program itself, not of a library or a built-in function."""
        match = _FRAME.match(text)
        if match is None:
            return False
        file = match["file"]
        found = self._known.get(file)
        if found is None:
            found = self._known[file] = self._of_file(file)
        return found

    def _of_file(self, file: str) -> bool:
        if file == self._script:
            return True
        if file.startswith("<") or _FOLDERS.search(file):
            return False
        parts = re.split(r"[/\\]", file)
        top = parts[0].removesuffix(".py")
        if any(part in ("mindtorch_v2", "torch") for part in parts[:-1]):
            return False
        return top not in sys.stdlib_module_names and top not in self._libraries

    def is_import(self, text: str) -> bool:
        """Whether a frame is of the machinery that imports modules."""
        return text.startswith("<frozen importlib")


def script_of(metadata: dict[str, Any]) -> str:
    """The program a recording is of, as far as it says."""
    said = metadata.get(SCRIPT)
    return said if isinstance(said, str) else ""
