"""speedscope, from its npm package, opens the formats that are flame graphs."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Browser, Run, browser_for


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    yield from browser_for(Path(os.environ["SPEEDSCOPE"]) / "dist" / "release")


def functions(run: Run) -> set[str]:
    """The names of what took time, without places and in the words that every format keeps whole."""
    lines = run.file(".collapsed").read_text().splitlines()
    leaves = {line.rpartition(" ")[0].rpartition(";")[2] for line in lines}
    return {leaf.rpartition(":_")[2] for leaf in leaves}


@pytest.mark.parametrize("suffix", [".speedscope.json", ".collapsed", ".pb.gz"])
def test_the_table_of_functions_is_shown(browser: Browser, run: Run, suffix: str) -> None:
    browser.open(f"index.html#profileURL={{file}}&title=run{suffix}&view=sandwich", run.file(suffix))
    # The head of the table comes first, its rows with their percentages a moment later.
    shown = browser.wait_for(
        "const text = document.body.innerText; return /Symbol Name[^]*%\\)/.test(text) && text",
    )
    # Only the functions with most time are in view, those of one thread.
    assert sum(name in shown for name in functions(run)) >= (2 if run.name == "loaded" else 5)
