"""Compiled modules that a checkout has outgrown are left aside, with a word on what to do."""

from __future__ import annotations

import importlib
import os
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest

from mindtorch_v2.core import built as _built

BUILT = 1_000_000_000


def build(
    checkout: Path, source: int | None, monkeypatch: pytest.MonkeyPatch, installed: bool = False
) -> SimpleNamespace:
    """A module in a checkout, whose header was changed so many seconds after it was built."""
    built, folder = BUILT, checkout / "src" / "package" / "core"
    folder.mkdir(parents=True)
    if not installed:
        (checkout / "pyproject.toml").touch()
    library = folder / "_helper.so"
    library.touch()
    os.utime(library, (built, built))
    if source is not None:
        header = folder / "native" / "ops.h"
        header.parent.mkdir(parents=True)
        header.touch()
        os.utime(header, (built + source, built + source))
    module = SimpleNamespace(__file__=str(library))
    monkeypatch.setattr(importlib, "import_module", lambda name: module)
    monkeypatch.setenv("MINDTORCH_PURE", "0")
    return module


@pytest.mark.parametrize("source", [0, -1, 1, None])  # copied whole, files may come in any order
def test_a_module_as_new_as_its_sources_is_used(
    source: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = build(tmp_path, source, monkeypatch)
    assert _built.compiled("helper") is module


def test_an_older_one_is_left_aside_with_a_word_on_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(tmp_path, 3600, monkeypatch)
    with pytest.warns(RuntimeWarning, match=r"_helper\.so is older than its sources .* `pip install --editable \.`"):
        assert _built.compiled("helper") is None


def test_an_installed_one_is_used_whatever_time_its_sources_were_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = build(tmp_path, 3600, monkeypatch, installed=True)
    assert _built.compiled("helper") is module


@pytest.mark.parametrize(
    ("without", "left"), [("recorder", ["kernels"]), ("kernels", ["helper"]), ("1", []), ("yes", [])]
)
def test_each_module_has_a_switch(
    without: str, left: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = build(tmp_path, None, monkeypatch)
    monkeypatch.setenv("MINDTORCH_PURE", without)
    assert [name for name in ("helper", "kernels") if _built.compiled(name) is module] == left


def test_nothing_is_said_of_what_is_not_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(tmp_path, 3600, monkeypatch)
    monkeypatch.setenv("MINDTORCH_PURE", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _built.compiled("helper") is None
