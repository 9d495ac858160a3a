"""The timeline does what mouse, wheel, keyboard, touch and search ask of it."""

from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin

from conftest import Page

CANVAS = ".timeline canvas"


def wheel(page: Page, turn: int, x: int = 0) -> None:
    origin = ScrollOrigin.from_element(page.find(CANVAS), x, 0)
    ActionChains(page.driver).scroll_from_origin(origin, 0, turn).perform()
    page.settle()


def press(page: Page, *keys: str) -> None:
    page.find(CANVAS).send_keys(*keys)
    page.settle()


def test_the_wheel_zooms_where_the_pointer_is(page: Page) -> None:
    page.open("small", "timeline")
    before = page.range()
    picture = page.picture(CANVAS)
    wheel(page, -400)
    low, high = page.range()
    assert before[0] < low < high < before[1]
    middle = (before[0] + before[1]) / 2
    assert abs((low + high) / 2 - middle) < (before[1] - before[0]) * 0.02
    assert page.picture(CANVAS) != picture
    wheel(page, 1200)
    assert page.range()[0] <= before[0] + 10
    assert page.range()[1] >= before[1] - 10


def test_dragging_pans(page: Page) -> None:
    page.open("small", "timeline&from=100000&to=200000")
    canvas = page.find(CANVAS)
    ActionChains(page.driver).move_to_element(canvas).click_and_hold().move_by_offset(-100, 0).release().perform()
    low, high = page.settle().range()
    assert low > 100_000
    assert abs((high - low) - 100_000) < 200


def test_shift_and_dragging_zooms_to_a_stretch(page: Page) -> None:
    page.open("small", "timeline")
    canvas = page.find(CANVAS)
    before = page.range()
    chain = ActionChains(page.driver).key_down(Keys.SHIFT).move_to_element(canvas)
    chain.click_and_hold().move_by_offset(100, 0).release().key_up(Keys.SHIFT).perform()
    low, high = page.settle().range()
    assert (high - low) < (before[1] - before[0]) / 4


def test_keys_zoom_pan_and_fit(page: Page) -> None:
    page.open("small", "timeline")
    whole = page.range()
    press(page, "+", "+")
    zoomed = page.range()
    assert zoomed[1] - zoomed[0] < (whole[1] - whole[0]) * 0.6
    press(page, Keys.ARROW_RIGHT)
    assert page.range()[0] > zoomed[0]
    press(page, Keys.ARROW_LEFT, "-")
    press(page, "0")
    assert page.range() == whole


def test_marks_of_the_ruler_differ_however_far_it_is_zoomed(page: Page) -> None:
    page.open("small", "timeline")
    whole = page.find(CANVAS).get_attribute("data-ticks").split("|")
    assert whole[:2] == ["0", "50 µs"]
    page.open("small", "timeline&from=100000&to=100200")
    close = page.find(CANVAS).get_attribute("data-ticks").split("|")
    assert len(close) > 3
    assert len(set(close)) == len(close)
    assert all(text.startswith("100.") and text.endswith(" µs") for text in close)


def test_work_on_a_device_stands_below_the_threads(page: Page) -> None:
    page.open("device", "timeline")
    assert page.find(CANVAS).get_attribute("data-lanes").split("|") == ["python", "GPU 0: stream 7"]
    page.go("overview")
    assert "1 thread, 1 device stream" in page.texts(".card .note")
    assert "cudnn::winograd_nonfused::winogradForwardData4x4" in page.texts(".ranks .name")


def test_one_finger_pans(page: Page) -> None:
    page.open("small", "timeline&from=100000&to=200000")
    box = page.js(
        "const b = arguments[0].getBoundingClientRect(); return [b.left, b.top, b.width, b.height]", page.find(CANVAS)
    )
    x, y = box[0] + box[2] / 2, box[1] + box[3] / 2
    for kind, moved in (("touchStart", 0), ("touchMove", -40), ("touchMove", -120), ("touchEnd", None)):
        points = [] if moved is None else [{"x": x + moved, "y": y, "id": 0}]
        page.driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    low, high = page.settle().range()
    assert low > 105_000
    assert abs((high - low) - 100_000) < 200


def test_a_double_click_zooms_to_an_event(page: Page) -> None:
    page.open("small", "timeline")
    before = page.range()
    height = page.js("return arguments[0].getBoundingClientRect().height", page.find(CANVAS))
    # The row of steps lies below the ruler.
    ActionChains(page.driver).move_to_element_with_offset(
        page.find(CANVAS), 0, int(24 + 9 - height / 2)
    ).double_click().perform()
    low, high = page.settle().range()
    assert (high - low) < (before[1] - before[0]) * 0.5


def test_two_fingers_zoom(page: Page) -> None:
    page.open("small", "timeline")
    box = page.js(
        "const b = document.querySelector(arguments[0]).getBoundingClientRect(); return [b.left, b.top, b.width, b.height]",
        CANVAS,
    )
    x, y = box[0] + box[2] / 2, box[1] + box[3] / 2
    before = page.range()

    def touch(kind: str, apart: float) -> None:
        points = [] if kind == "touchEnd" else [{"x": x - apart, "y": y, "id": 0}, {"x": x + apart, "y": y, "id": 1}]
        page.driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", 40)
    for apart in (60, 90, 140):
        touch("touchMove", apart)
    touch("touchEnd", 0)
    low, high = page.settle().range()
    assert (high - low) < (before[1] - before[0]) * 0.6


def test_a_click_shows_details_and_an_arrow(page: Page) -> None:
    page.open("small", "timeline&from=0&to=50000")
    plain = page.picture(CANVAS)
    # Rows of the main thread from the top: step, model, layer, linear, addmm.
    top = page.js("return arguments[0].getBoundingClientRect().height", page.find(CANVAS))
    lanes = 24 + 20 + 46 + 22
    width = page.js("return arguments[0].getBoundingClientRect().width", page.find(CANVAS))
    x = int(10_000 / 50_000 * width - width / 2)
    y = int(lanes + 4 * 18 + 9 - top / 2)
    ActionChains(page.driver).move_to_element_with_offset(page.find(CANVAS), x, y).click().perform()
    page.settle()
    assert page.find(".details h2").text == "aten::addmm"
    facts = page.find(".details dl").text
    assert "[[8, 16], [16, 16], [16]]" in facts
    assert "Model.layer0" in facts
    assert page.texts(".details .parent a") == ["aten::linear"]
    assert page.texts(".details .partner a") == ["AddmmBackward0"]
    assert page.texts(".details .stack li") == ["model.py(20): forward", "train.py(9): train", "train.py(30): <module>"]
    assert page.picture(CANVAS) != plain


def test_links_open_at_a_selected_event(page: Page) -> None:
    page.open("small", "timeline&event=4")
    name = page.find(".details h2").text
    assert page.find(".details").get_attribute("data-event") == "4"
    page.click(".details .parent a")
    assert page.find(".details h2").text != name
    assert page.js("return location.hash").startswith("#timeline&event=3")


def test_keys_walk_from_event_to_event(page: Page) -> None:
    page.open("small", "timeline")
    press(page, Keys.ENTER)
    assert page.find(".details h2").text == "ProfilerStep#0"
    press(page, Keys.ENTER)
    assert page.find(".details h2").text == "nn.Module: Model_0"
    press(page, "n")
    assert page.find(".details h2").text == "aten::item"
    press(page, Keys.BACKSPACE)
    assert page.find(".details h2").text == "ProfilerStep#0"
    assert page.find("#said").get_attribute("textContent").startswith("ProfilerStep#0")
    press(page, Keys.ESCAPE)
    assert page.all(".details[data-event]") == []


def test_search_marks_counts_and_visits(page: Page) -> None:
    page.open("small", "timeline")
    plain = page.picture(CANVAS)
    box = page.find(".timeline input[type=search]")
    box.send_keys("ADDMM")
    page.settle()
    assert page.find(".timeline output").text == "18 found"
    assert page.picture(CANVAS) != plain
    box.send_keys(Keys.ENTER)
    page.settle()
    assert page.find(".details h2").text == "aten::addmm"
    assert page.find(".timeline output").text == "1 of 18"
    first = page.find(".details").get_attribute("data-event")
    box.send_keys(Keys.ENTER)
    page.settle()
    assert page.find(".details").get_attribute("data-event") != first
    box.send_keys(Keys.SHIFT, Keys.ENTER)
    page.settle()
    assert page.find(".details").get_attribute("data-event") == first


def test_all_arrows_can_be_shown(page: Page) -> None:
    page.open("small", "timeline")
    plain = page.picture(CANVAS)
    page.click(".timeline input[type=checkbox]")
    assert page.picture(CANVAS) != plain


def test_a_thread_can_be_closed(page: Page) -> None:
    page.open("small", "timeline")
    plain = page.picture(CANVAS)
    height = page.js("return arguments[0].getBoundingClientRect().height", page.find(CANVAS))
    ActionChains(page.driver).move_to_element_with_offset(
        page.find(CANVAS), 0, int(24 + 20 + 46 + 8 - height / 2)
    ).click().perform()
    assert page.settle().picture(CANVAS) != plain


def test_a_long_run_redraws_fast(page: Page) -> None:
    page.open("large", "timeline")
    wheel(page, -300)
    wheel(page, 300)
    assert page.errors() == []
    assert page.range()[0] <= 10
