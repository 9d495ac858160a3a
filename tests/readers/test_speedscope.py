"""speedscope, from its npm package, opens the formats that are flame graphs."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Browser, Run, browser_for


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    yield from browser_for(Path(os.environ["SPEEDSCOPE"]) / "dist" / "release")


@pytest.mark.parametrize("suffix", [".speedscope.json", ".collapsed", ".pb.gz"])
def test_the_table_of_functions_is_shown(browser: Browser, run: Run, suffix: str) -> None:
    browser.open(f"index.html#profileURL={{file}}&title=run{suffix}&view=sandwich", run.file(suffix))
    shown = browser.wait_for("return document.body.innerText.includes('Symbol Name') && document.body.innerText")
    # Of several threads the first is shown, which here waits for the others.
    assert ("join" if run.name == "threads" and suffix == ".speedscope.json" else "aten::addmm") in shown
