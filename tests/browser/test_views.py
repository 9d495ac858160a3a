"""Every view of every capture opens, without a word on the console and without a connection to anywhere."""

from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import CAPTURES, ON_DEVICES, VIEWS, Page
from mindtorch_v2.profiler.report import make_report
from report_captures import HOSTILE


@pytest.mark.parametrize("name", CAPTURES)
def test_every_view_opens_without_console_errors(page: Page, name: str) -> None:
    page.open(name)
    views = [VIEWS[0], *(["devices"] if name in ON_DEVICES else []), *VIEWS[1:], *(["diff"] if name == "small" else [])]
    assert [
        link.lstrip("#")
        for link in page.js("return [...document.querySelectorAll('nav a')].map((a) => a.getAttribute('href'))")
    ] == views
    for view in views:
        page.go(view)
        assert page.js("return document.getElementById('view').dataset.view") == view
        assert page.find("#view > section").is_displayed()
        assert page.find(f"#tab-{view}").get_attribute("aria-selected") == "true"
    assert page.errors() == []


def test_a_long_run_makes_a_small_file_that_opens(page: Page, report_path: Callable[[str], Path]) -> None:
    assert report_path("large").stat().st_size <= 3_000_000
    page.open("large")
    assert page.texts(".card strong")[1] == "301,080"


def test_a_long_run_is_ready_and_redrawn_fast(page: Page) -> None:
    """Counted is the processor time of the page's thread, which other processes do not change."""

    def worked() -> float:
        found = page.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        return float(next(row["value"] for row in found if row["name"] == "TaskDuration"))

    page.driver.get("about:blank")
    page.driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    try:
        page.open("large", "timeline")
        assert worked() < 1.0
        before = worked()
        for turn in (-40, 40) * 5:
            page.js(
                "document.querySelector('.timeline canvas').dispatchEvent(new WheelEvent('wheel',"
                "{ deltaY: arguments[0], cancelable: true }))",
                turn,
            )
            page.settle()
        assert (worked() - before) / 10 < 0.1
    finally:
        page.driver.execute_cdp_cmd("Performance.disable", {})


def test_a_report_loads_nothing_from_anywhere(page: Page) -> None:
    page.open("small")
    assert page.js("return performance.getEntriesByType('resource').length") == 0
    page.js("const image = new Image(); image.src = 'https://example.invalid/x.png'; document.body.append(image)")
    page.settle()
    assert any("Content Security Policy" in text for text in page.errors())


def test_hostile_names_are_text_and_nothing_runs(page: Page) -> None:
    page.open("hostile")
    for view in VIEWS:
        page.go(view)
        assert page.js("return window.hacked") is None
        assert page.js("return document.querySelectorAll('main img, main svg, main script, main iframe').length") == 0
    page.go("operators")
    shown = "const names = [...document.querySelectorAll('.named a')].map((e) => e.textContent);"
    assert page.js(shown + "return arguments[0].filter((name) => !names.includes(name))", HOSTILE[:6]) == []
    page.go("timeline&event=2")
    assert page.find(".details h2").text.strip()
    assert page.js("return window.hacked") is None
    assert page.errors() == []


def test_a_hostile_address_is_harmless(page: Page) -> None:
    page.open("small", "timeline&event=99999999&from=x&to=%&search=<img src=x onerror=window.hacked=1>&__proto__=1")
    assert page.js("return document.getElementById('view').dataset.view") == "timeline"
    page.go("nosuchview&event=-5")
    assert page.js("return document.getElementById('view').dataset.view") == "overview"
    assert page.js("return window.hacked") is None
    assert page.errors() == []


def test_the_torch_trace_shows_what_torch_recorded(page: Page) -> None:
    page.open("torch", "operators")
    names = page.texts(".named a")
    assert {"aten::conv2d", "aten::addmm", "ConvolutionBackward0"} <= set(names)
    page.go("steps")
    assert len(page.all(".steps button")) == 3
    page.go("modules")
    assert any("Conv2d_0" in text for text in page.texts("tr[data-module]"))
    page.go("overview")
    assert "casts" in page.js("return [...document.querySelectorAll('.findings > li')].map((l) => l.dataset.rule)")


def test_what_recording_cost_is_said_or_said_to_be_unknown(page: Page) -> None:
    def cost() -> str:
        cards = page.js(
            "return [...document.querySelectorAll('.card')].map((c) => [...c.children].map((e) => e.textContent))"
        )
        return " ".join(next(card for card in cards if card[0] == "Profiler's own cost")[1:])

    page.open("torch")
    assert cost() == "not known the trace does not say"
    page.open("priced")
    assert cost().endswith("about 100 ns an event")
    assert cost()[0].isdigit()


def test_no_name_is_read_backwards(page: Page) -> None:
    page.open("hostile", "operators")
    shown = "return [...document.querySelectorAll('.named a')].some((e) => e.textContent === arguments[0])"
    assert page.js(shown, "aten::�backwards")


def test_text_stands_out_in_both_themes(page: Page) -> None:
    """The contrast that WCAG asks of text, 4.5 to 1, for every colour of text on every ground."""
    page.open("small")
    low = page.js(
        """
        const light = (text) => {
          const parts = text.match(/[0-9a-f]{2}/gi).map((part) => parseInt(part, 16) / 255);
          const [r, g, b] = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const found = [];
        for (const theme of ["light", "dark"]) {
          document.documentElement.dataset.theme = theme;
          const style = getComputedStyle(document.documentElement);
          const read = (name) => light(style.getPropertyValue(`--${name}`).trim());
          for (const text of ["text", "muted", "accent", "worse", "better"])
            for (const ground of ["surface", "raised"]) {
              const [a, b] = [read(text), read(ground)].sort((x, y) => y - x);
              if ((a + 0.05) / (b + 0.05) < 4.5) found.push([theme, text, ground, (a + 0.05) / (b + 0.05)]);
            }
        }
        return found;
        """
    )
    assert low == []


def test_tabs_are_moved_through_with_arrow_keys(page: Page) -> None:
    page.open("small", "overview")
    page.find("#tab-overview").send_keys("\ue014")  # right
    page.settle()
    assert page.js("return document.getElementById('view').dataset.view") == "timeline"
    assert page.js("return document.activeElement.id") == "tab-timeline"


def test_every_control_has_a_name(page: Page) -> None:
    page.open("small")
    for view in (*VIEWS, "diff"):
        page.go(view)
        unnamed = page.js(
            "return [...document.querySelectorAll('button, a, select, input, canvas, table')].filter((e) =>"
            "!(e.getAttribute('aria-label') || e.textContent.trim() || e.closest('label'))).map((e) => e.outerHTML)"
        )
        assert unnamed == [], view


def test_the_theme_follows_the_system_until_it_is_chosen(page: Page) -> None:
    def prefer(scheme: str) -> None:
        feature = {"name": "prefers-color-scheme", "value": scheme}
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    page.open("small", "timeline")
    try:
        prefer("light")
        page.wait("return document.documentElement.dataset.theme === 'light'")
        light = page.settle().picture()
        prefer("dark")
        page.wait("return document.documentElement.dataset.theme === 'dark'")
        assert page.settle().picture() != light
        page.click("#theme")
        assert page.js("return document.documentElement.dataset.theme") == "light"
        assert page.settle().picture() == light
    finally:
        page.js("localStorage.clear()")
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_paper_is_light_and_without_controls(page: Page) -> None:
    page.open("small", "operators")
    page.js("document.documentElement.dataset.theme = 'dark'; dispatchEvent(new Event('beforeprint'))")
    assert page.js("return document.documentElement.dataset.theme") == "light"
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        shown = page.js(
            "return ['nav', '.bar', '#theme'].map((s) => getComputedStyle(document.querySelector(s)).display)"
        )
        assert shown == ["none"] * 3
        assert page.find(".grid table").is_displayed()
        # What is shown begins right below the title, not on the next sheet.
        assert page.js("return document.querySelector('.grid').getBoundingClientRect().top") < 200
        assert len(page.driver.print_page()) > 10_000
    finally:
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_a_notebook_shows_the_report_inline(page: Page, tmp_path: Path) -> None:
    notebook = tmp_path / "notebook.html"
    shown = make_report(CAPTURES["small"]())._repr_html_()
    notebook.write_text(f"<!doctype html><title>A notebook</title>{shown}", encoding="utf-8")
    page.driver.get("about:blank")
    page.driver.get_log("browser")
    page.driver.get(notebook.as_uri())
    page.driver.switch_to.frame(page.find("iframe"))
    try:
        page.wait("return document.documentElement.dataset.ready")
        for view in VIEWS:
            page.click(f"#tab-{view}")
            assert page.js("return document.getElementById('view').dataset.view") == view
        page.click("#theme")
    finally:
        page.driver.switch_to.default_content()
    assert page.errors() == []


def test_a_small_screen_needs_no_sideways_scrolling(page: Page) -> None:
    page.open("small")
    page.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 800, "deviceScaleFactor": 2, "mobile": True}
    )
    try:
        for view in (*VIEWS, "diff"):
            page.go(view)
            assert page.js("return document.documentElement.scrollWidth <= innerWidth + 1"), view
            tab = page.js(
                "const b = arguments[0].getBoundingClientRect(); return [b.left, b.right]", page.find(f"#tab-{view}")
            )
            assert 0 <= tab[0] < tab[1] <= 390, view
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_first_screen_tells_where_a_step_went(page: Page) -> None:
    page.open("small", "overview")
    assert page.texts(".headline")[0].startswith("A step takes ")
    key = [text.split("1")[0] for text in page.texts(".overview section:nth-of-type(1) .key li")]
    assert any(text.startswith("Forward") for text in key)
    assert any(text.startswith("Backward") for text in key)
    tips = page.js("return [...document.querySelectorAll('.shares i')].map((i) => i.title)")
    assert any("the autograd engine and the operators it runs" in tip for tip in tips)
    titles = page.texts(".overview h2")
    for title in ("The median step", "The run", "What could be saved", "Hot lines of your code", "Memory at its peak"):
        assert any(text.startswith(title) for text in titles), title


def test_library_frames_are_folded_until_asked_for(page: Page) -> None:
    page.open("torch", "flame")
    names = "return document.querySelector('.flames canvas').dataset.names"
    assert "train.py" in page.js(names)
    assert "torch/" not in page.js(names)
    page.js("[...document.querySelectorAll('label.field')].find((l) => l.textContent === 'Library frames').click()")
    page.settle()
    assert "torch/" in page.js(names)
    # The timeline follows, and a link to a folded event shows it.
    page.open("torch", "timeline")
    assert page.js("return document.querySelector('.bar label:nth-of-type(2) input').checked") is False


def test_the_flame_graph_shows_one_thread_and_no_waiting(page: Page) -> None:
    page.open("workers", "flame")
    names = "return document.querySelector('.flames canvas').dataset.names"
    assert "<built-in function sleep>" not in page.js(names)  # folded
    page.js("[...document.querySelectorAll('label.field')].find((l) => l.textContent === 'Library frames').click()")
    page.settle()
    assert "<built-in function sleep>" in page.js(names)
    page.js("[...document.querySelectorAll('label.field')].find((l) => l.textContent === 'Hide waiting').click()")
    page.settle()
    assert "<built-in function sleep>" not in page.js(names)
    page.choose("Thread", "1")
    assert "aten::stack" in page.js(names)
    assert "aten::mm" not in page.js(names)


def test_every_worker_is_on_the_first_screen(page: Page) -> None:
    page.open("workers", "timeline")
    # It is drawn once more when its height is known.
    page.wait(
        "const at = document.querySelector('.timeline canvas'); return Number(at.dataset.bottom) <= at.clientHeight"
    )
    data = page.js("return {...document.querySelector('.timeline canvas').dataset}")
    lanes = data["lanes"].split("|")
    assert len(lanes) == 5
    assert "rows" in lanes[0]  # the deep one leaves room
    assert int(data["bottom"]) <= page.js("return document.querySelector('.timeline canvas').clientHeight")


def test_keys_work_without_a_click(page: Page) -> None:
    page.open("small", "timeline")
    before = page.js("return document.querySelector('.timeline canvas').dataset.to")
    page.js("document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'w', bubbles: true}))")
    page.settle()
    assert page.js("return document.querySelector('.timeline canvas').dataset.to") != before


def test_thousands_of_steps_are_a_distribution_without_scrolling(page: Page) -> None:
    page.open("long", "steps")
    assert len(page.all(".steps button")) <= 100
    assert 4 < len(page.all(".histogram .bars > *")) <= 33
    edges = "const box = document.querySelector('.steps'); return [box, box.lastChild].map((e) => e.getBoundingClientRect().right)"
    assert page.js(edges)[1] <= page.js(edges)[0] + 1
    # Three steps are far longer than the others: the axis does not follow them.
    assert page.texts(".histogram .range span")[2].startswith("3 up to")
    assert any(text == "▲" for text in page.texts(".steps b"))
    page.js("document.querySelector('.histogram .bars > :last-child').click()")
    page.settle()
    assert "against" in page.texts("p.facts")[0]
    assert page.errors() == []
