"""Tables sort, filter, group and save; flame graph, modules, memory, steps and diff do what they are asked."""

import csv
import io
from pathlib import Path

import pytest
from selenium.webdriver import ActionChains, Keys

import report_captures as captures
from conftest import TORCH_TRACE, Page
from mindtorch_v2.profiler.analyse.averages import Grouping, average_views
from mindtorch_v2.profiler.analyse.events import View
from mindtorch_v2.profiler.analyse.metrics import Metrics
from mindtorch_v2.profiler.api.load import load
from mindtorch_v2.profiler.capture.capture import Capture


def column(page: Page, number: int) -> list[str]:
    return page.texts(f".grid tbody tr td:nth-child({number})")


def sort_by(page: Page, title: str) -> str:
    page.js(
        "[...document.querySelectorAll('.grid th button')].find((b) => b.textContent.startsWith(arguments[0])).click()",
        title,
    )
    found: str = page.settle().js(
        "return document.querySelector('.grid th[aria-sort]:not([aria-sort=none])').getAttribute('aria-sort')"
    )
    return found


def save(page: Page, downloads: Path, name: str) -> list[list[str]]:
    target = downloads / name
    target.unlink(missing_ok=True)
    page.js("[...document.querySelectorAll('button')].find((b) => b.textContent === 'Save as CSV').click()")
    page.wait("return true")
    for _ in range(500):
        if target.exists() and target.stat().st_size:
            break
        page.settle()
    return list(csv.reader(io.StringIO(target.read_text(encoding="utf-8"), newline="")))


def test_headers_sort_both_ways(page: Page) -> None:
    page.open("small", "operators")
    assert column(page, 1)[0] == "aten::mm"
    assert sort_by(page, "Name") == "ascending"
    names = column(page, 1)
    assert names == sorted(names, key=str.lower)
    assert sort_by(page, "Name") == "descending"
    assert column(page, 1) == names[::-1]
    assert sort_by(page, "Calls") == "descending"
    calls = [int(text) for text in column(page, 6)]
    assert calls == sorted(calls, reverse=True)


def test_filter_and_groups(page: Page) -> None:
    page.open("small", "operators")
    page.find(".bar input[type=search]").send_keys("mm")
    page.settle()
    assert {"aten::addmm", "aten::mm"} <= set(column(page, 1))
    assert "aten::item" not in column(page, 1)
    page.choose("Group by", "shape")
    assert set(column(page, 2)) <= {"[[8, 16], [16, 16], [16]]", ""}
    page.choose("Group by", "stack")
    rows = set(zip(column(page, 1), column(page, 2)))
    assert {("aten::addmm", "model.py(20): forward"), ("aten::addmm", "model.py(21): forward")} <= rows
    page.choose("Group by", "module")
    assert ("aten::mm", "Model.layer1") in set(zip(column(page, 1), column(page, 2)))


@pytest.mark.parametrize("name", ["small", "torch"])
def test_the_saved_table_agrees_with_key_averages(page: Page, downloads: Path, name: str) -> None:
    page.open(name, "operators")
    header, *rows = save(page, downloads, "operators.csv")
    capture: Capture = captures.small() if name == "small" else load(TORCH_TRACE)
    expected = {row.key: row for row in average_views([View(Metrics(capture))], Grouping()) if row.key != "[memory]"}
    assert {row[0] for row in rows} == set(expected)
    for row in rows:
        found = dict(zip(header, row))
        average = expected[row[0]]
        assert int(found["Calls"]) == average.count
        assert float(found["Total"]) == pytest.approx(average.cpu_time_total * 1000, abs=2)
        assert float(found["Self"]) == pytest.approx(average.self_cpu_time_total * 1000, abs=2)
        assert float(found["Memory"]) == average.self_cpu_memory_usage


def test_saved_text_is_no_formula(page: Page, downloads: Path) -> None:
    page.open("hostile", "operators")
    _, *rows = save(page, downloads, "operators.csv")
    assert "'=HYPERLINK(1)" in {row[0] for row in rows}


def test_names_link_to_the_longest_call(page: Page) -> None:
    page.open("small", "operators")
    page.click(".named a")
    assert page.find(".details h2").text == "aten::mm"


def test_the_flame_graph_zooms_turns_and_changes_its_base(page: Page) -> None:
    page.open("small", "flame")
    whole = page.picture(".flames canvas")
    ActionChains(page.driver).move_to_element_with_offset(
        page.find(".flames canvas"), 0, -int(page.find(".flames canvas").size["height"] / 2) + 28
    ).click().perform()
    page.settle()
    assert page.js("return document.querySelector('.flames canvas').dataset.root") == "ProfilerStep*"
    assert page.texts(".crumbs button") == ["all", "ProfilerStep*"]
    page.click(".crumbs button")
    assert page.picture(".flames canvas") == whole
    page.choose("As", "up")
    assert page.picture(".flames canvas") != whole
    for mode in ("stack", "module"):
        page.choose("By", mode)
        assert int(page.js("return document.querySelector('.flames canvas').dataset.nodes")) > 4
    page.find(".flames canvas").send_keys(Keys.ARROW_UP)
    page.settle()
    assert page.find("p.facts strong").text == "Model"
    assert page.errors() == []


def test_modules_open_close_and_tell_forward_from_backward(page: Page) -> None:
    page.open("small", "modules")
    assert len(page.all("tr[data-module]")) == 3
    cells = page.texts("tr[data-module='2'] td")
    assert cells[0].endswith("layer0Linear_0")
    assert cells[1:4] == ["3", "54.0 µs", "54.0 µs"]
    page.find("tr[data-module='1']").send_keys(Keys.ARROW_LEFT)
    page.settle()
    assert len(page.all("tr[data-module]")) == 1
    assert page.find("tr[data-module='1']").get_attribute("aria-expanded") == "false"
    page.click("tr[data-module='1'] .twist")
    assert len(page.all("tr[data-module]")) == 3


def test_a_long_module_name_stays_in_its_cell(page: Page) -> None:
    page.open("hostile", "modules")
    beyond = page.js(
        "return [...document.querySelectorAll('tr[data-module]')].filter((row) => {"
        "const name = row.querySelector('b').getBoundingClientRect();"
        "return name.right > row.cells[1].getBoundingClientRect().left; }).length"
    )
    assert beyond == 0


def test_memory_is_shown_by_category(page: Page) -> None:
    page.open("torch", "memory")
    names = {text.split("\u00a0")[0] for text in page.texts(".page .key li")}
    assert len(names) >= 3
    assert all("at the peak" in text for text in names)
    assert {"Size ↓", "Category", "Allocated by"} <= set(page.texts(".grid th"))


def test_memory_shows_the_peak_and_leads_to_the_timeline(page: Page) -> None:
    page.open("small", "memory")
    assert "12.0 KB (the peak)" in page.find("p.facts").text
    assert column(page, 1) == ["8.00 KB", "4.00 KB"]
    assert column(page, 2) == ["aten::addmm", "aten::addmm"]
    chart = page.find("canvas.chart")
    before = page.picture("canvas.chart")
    chart.send_keys(Keys.ARROW_RIGHT)
    page.settle()
    assert page.picture("canvas.chart") != before
    chart.send_keys(Keys.ENTER)
    page.settle()
    assert page.js("return document.getElementById('view').dataset.view") == "timeline"


def test_steps_compare_two_of_them(page: Page) -> None:
    page.open("small", "steps")
    assert len(page.all(".steps button")) == 3
    page.all(".steps button")[0].click()
    page.settle()
    assert page.find("p.facts").text.startswith("ProfilerStep#0 takes")
    assert page.texts(".scale span") == ["100 µs", "50.0 µs", "0"]
    assert page.texts(".steps .tick") == ["#0", "#1", "#2"]
    assert "aten::addmm" in column(page, 1)
    page.choose("A", "2")
    assert "ProfilerStep#2" in page.find("p.facts").text


def test_the_diff_names_what_changed(page: Page) -> None:
    page.open("small", "diff")
    assert column(page, 1)[0] == "ProfilerStep*"
    # One run a side proves nothing without a baseline, and the page says so; it knows no interval either.
    assert column(page, 2)[0] == "unclear"
    assert any("baseline" in text for text in page.texts(".page p"))
    titles = page.texts(".grid th")
    assert {"95 %", "Calls, before", "Total, now", "Memory, before"} <= set(titles)
    assert column(page, titles.index("95 %") + 1)[0] == ""
    page.choose("By", "module")
    assert "Model.layer0" in column(page, 1)
    page.choose("By", "stack")
    assert any("model.py: forward" in text for text in column(page, 1))
    assert page.errors() == []


def test_findings_lead_to_their_place(page: Page) -> None:
    page.open("small", "overview")
    found = page.find(".findings li[data-rule=reads]")
    assert "train.py:12 in train" in found.text
    page.click(".findings li[data-rule=reads] a")
    assert page.find(".details h2").text == "aten::item"
