"""The view of devices, on a generated run: what limits it, lines over time, tables, the roofline, arrows from launches."""

from conftest import Page


def test_the_first_screen_says_what_limits_the_run(page: Page) -> None:
    page.open("gpu")
    assert page.texts(".answer .sentence")[0].startswith(
        "The host limits the run: the device has nothing to do for 41%"
    )
    assert any("train.py(40): step" in text for text in page.texts(".answer .spots li"))
    assert page.find(".answer").location["y"] < page.find(".cards").location["y"]
    assert "Peak memory of device 0" in page.texts(".card .title")
    assert page.errors() == []


def test_the_view_draws_lines_and_the_roofline(page: Page) -> None:
    page.open("gpu", "devices")
    charts = page.all(".devices canvas")
    assert len(charts) == 4
    blank = page.js("const c = document.createElement('canvas'); c.width = c.height = 9; return c.toDataURL()")
    pictures = page.js("return [...document.querySelectorAll('.devices canvas')].map((c) => c.toDataURL())")
    assert len(set(pictures)) == 4
    assert blank not in pictures
    titles = page.texts(".devices h2")
    for title in ("Kernels", "Streams", "Critical path", "Launched and not begun", "Memory of device 0"):
        assert title in titles
    assert any(title.startswith("Roofline H100 SXM") for title in titles)
    assert page.errors() == []


def test_kernels_name_the_ops_that_ask_for_them(page: Page) -> None:
    page.open("gpu", "devices")
    rows = page.texts("table[aria-label='Kernels'] tbody tr")
    assert any("sm90_xmma_gemm" in row and "aten::addmm" in row for row in rows)


def test_a_click_on_a_line_opens_the_timeline_there(page: Page) -> None:
    page.open("gpu", "devices").click(".devices canvas")
    assert page.js("return document.getElementById('view').dataset.view") == "timeline"
    low, high = page.range()
    assert 0 < low < high


def test_arrows_lead_from_launches_to_kernels(page: Page) -> None:
    page.open("gpu", "timeline&from=500000&to=900000")
    plain = page.picture(".timeline canvas")
    page.js(
        "const fields = [...document.querySelectorAll('label.field')];"
        "fields.find((field) => field.textContent === 'Launch arrows').querySelector('input').click()"
    )
    page.settle()
    assert page.picture(".timeline canvas") != plain


def test_a_kernel_leads_to_its_launch_and_back(page: Page) -> None:
    page.open("gpu", "timeline&search=gemm")
    page.click("button[aria-label='Next match']")
    assert "Launched by" in page.texts(".details h3")
    assert page.texts(".details .partner a") == ["cudaLaunchKernel"]
    page.click(".details .partner a")
    assert "On the device" in page.texts(".details h3")


def test_a_run_without_devices_has_no_such_view(page: Page) -> None:
    page.open("small")
    assert "Devices" not in page.texts("nav a")
    assert page.texts(".answer") == []
