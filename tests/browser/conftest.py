"""A headless chromium for the whole run, and the reports it looks at, each made once."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

import report_captures as captures
from device_runs import device_run
from device_traces import DeviceTrace
from mindtorch_v2.profiler.api.load import load
from mindtorch_v2.profiler.capture.capture import Capture
from mindtorch_v2.profiler.report import write_report

DATA = Path(__file__).parent / "data"
TORCH_TRACE = DATA / "torch_trace.json.gz"
# Made by hand in the form torch gives to work on a GPU.
DEVICE_TRACE = DATA / "device_trace.json.gz"


def _loaded(trace: DeviceTrace) -> Capture:
    with tempfile.TemporaryDirectory() as folder:
        return load(trace.write(Path(folder) / "trace.json"))


# Those that have a view of devices.
ON_DEVICES = ("device", "gpu")
CAPTURES: dict[str, Callable[[], Capture]] = {
    "empty": captures.empty,
    "small": captures.small,
    "large": captures.large,
    "hostile": captures.hostile,
    "torch": lambda: load(TORCH_TRACE),
    "device": lambda: load(DEVICE_TRACE),
    "gpu": lambda: _loaded(device_run()),
    "priced": captures.priced,
    "workers": captures.workers,
    "long": captures.long,
}
# The second side of the reports that have a diff view.
BEFORE: dict[str, Callable[[], Capture]] = {"small": lambda: captures.small(slower=2)}
VIEWS = ("overview", "timeline", "flame", "operators", "modules", "memory", "steps")


def found(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        pytest.fail(f"the browser tests need {program}: apt-get install chromium chromium-driver")
    return path


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """A test that was skipped has shown nothing, hence it has failed."""
    report = yield
    if report.skipped:
        report.outcome, report.longrepr = "failed", "a browser test must not be skipped"
    return report


@pytest.fixture(scope="session")
def downloads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="session")
def driver(downloads: Path) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = found("chromium")
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1280,800"):
        options.add_argument(argument)
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(found("chromedriver")))
    driver.set_script_timeout(30)
    yield driver
    driver.quit()


@pytest.fixture(scope="session")
def report_path(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("reports")

    def path_of(name: str) -> Path:
        path = folder / f"{name}.html"
        if not path.exists():
            before = BEFORE[name]() if name in BEFORE else None
            write_report(CAPTURES[name](), path, before=before, title=f"The {name} capture")
        return path

    return path_of


class Page:
    """A report in the browser."""

    def __init__(self, driver: webdriver.Chrome, report_path: Callable[[str], Path]) -> None:
        self.driver = driver
        self._path = report_path

    def open(self, name: str, place: str = "") -> "Page":
        """Load a report afresh, at a place in it."""
        self.driver.get("about:blank")
        self.driver.get_log("browser")
        self.driver.get(f"{self._path(name).as_uri()}#{place}")
        self.wait("return document.documentElement.dataset.ready")
        return self.settle()

    def go(self, place: str) -> "Page":
        """Follow a link inside the report."""
        self.js("location.hash = arguments[0]", place)
        return self.settle()

    def js(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def wait(self, script: str, *arguments: Any) -> Any:
        """The first value of an expression that counts as true."""
        waiting = (
            "const [give, all] = [arguments[arguments.length - 1], [...arguments]];"
            f"const test = function () {{ {script} }};"
            "const look = () => { const value = test(...all); value ? give(value) : setTimeout(look, 10); }; look();"
        )
        return self.driver.execute_async_script(waiting, *arguments)

    def settle(self) -> "Page":
        """Wait until everything asked for is painted."""
        self.driver.execute_async_script(
            "const give = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(give, 0)));"
        )
        return self

    def find(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def all(self, selector: str) -> list[Any]:
        return self.driver.find_elements("css selector", selector)

    def texts(self, selector: str) -> list[str]:
        found: list[str] = self.js(
            "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)", selector
        )
        return found

    def click(self, selector: str) -> "Page":
        self.find(selector).click()
        return self.settle()

    def choose(self, label: str, value: str) -> "Page":
        """Pick an option of the select with a label."""
        self.js(
            "const field = [...document.querySelectorAll('label.field')].find((l) => l.textContent.startsWith(arguments[0]));"
            "const select = field.querySelector('select'); select.value = arguments[1];"
            "select.dispatchEvent(new Event('change'));",
            label,
            value,
        )
        return self.settle()

    def errors(self) -> list[str]:
        """What the console complained of."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]

    def picture(self, selector: str = "canvas") -> str:
        """What a canvas shows, for telling two states apart."""
        shown: str = self.js("return document.querySelector(arguments[0]).toDataURL()", selector)
        return shown

    def range(self) -> tuple[int, int]:
        """The stretch of time that the timeline shows, in nanoseconds."""
        data = self.js("return {...document.querySelector('.timeline canvas').dataset}")
        return int(data["from"]), int(data["to"])


@pytest.fixture
def page(driver: webdriver.Chrome, report_path: Callable[[str], Path]) -> Page:
    return Page(driver, report_path)
