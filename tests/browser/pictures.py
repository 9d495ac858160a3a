"""Takes the pictures of docs/pictures: every view of the report of a profiled examples/gpt.py, small and in 256 colours.

Run by `make pictures`; the run before it (another seed and one slower op) gives the diff view something to show.
"""

import io
import os
import subprocess
import sys
from pathlib import Path

from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from conftest import CAPTURES, Page, found
from mindtorch_v2.profiler.report import write_report

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
PROGRAM = """
import sys
sys.path.insert(0, "examples")
import gpt, torch
from torch.profiler import profile, schedule

def run(steps, slow):
    torch.manual_seed(0)
    step = gpt.make_step()
    plain = torch.nn.functional.softmax
    def softmax(x, dim):
        for _ in range(8 if slow else 0):
            plain(x, dim=dim)
        return plain(x, dim=dim)
    gpt.F.softmax = softmax
    plan = schedule(wait=1, warmup=1, active=steps, repeat=1)
    flags = dict.fromkeys(["record_shapes", "with_stack", "profile_memory", "with_flops", "with_modules"], True)
    with profile(**flags, schedule=plan) as prof:
        for _ in range(steps + 2):
            step().item()
            prof.step()
    gpt.F.softmax = plain
    return prof

before = run(16, True).profiler.newest_capture()
run(16, False).report(sys.argv[1], before=before, title="gpt.py")
"""
VIEWS = ("overview", "timeline", "flame", "operators", "modules", "memory", "steps", "diff")
DARK = ("overview", "timeline")


def take(page: Page, name: str) -> None:
    picture = Image.open(io.BytesIO(page.driver.get_screenshot_as_png())).convert("RGB")
    small = picture.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    small.save(PICTURES / f"{name}.png", optimize=True)


def main() -> None:
    report = ROOT / "demo" / "pictures.html"
    report.parent.mkdir(exist_ok=True)
    PICTURES.mkdir(exist_ok=True)
    program = report.with_suffix(".py")
    program.write_text(PROGRAM)
    calm = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-m", "mindtorch_v2", str(program), str(report)], cwd=ROOT, env=calm, check=True)
    options = webdriver.ChromeOptions()
    options.binary_location = found("chromium")
    for argument in ("--headless=new", "--no-sandbox", "--hide-scrollbars", "--window-size=1280,860"):
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options, service=Service(found("chromedriver")))
    page = Page(driver, lambda name: report)
    try:
        for scheme, views, suffix in (("light", VIEWS, ""), ("dark", DARK, "-dark")):
            feature = {"name": "prefers-color-scheme", "value": scheme}
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
            page.open("pictures")
            for view in views:
                page.go(place_of(page, view)).settle()
                take(page, view + suffix)
        take_devices(driver)
    finally:
        driver.quit()


def take_devices(driver: webdriver.Chrome) -> None:
    """The view of devices, of a generated run on a GPU: there is none here."""
    report = ROOT / "demo" / "devices.html"
    write_report(CAPTURES["gpu"](), report, title="A generated run on a GPU")
    driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "light"}]}
    )
    take(Page(driver, lambda name: report).open("devices", "devices"), "devices")


def place_of(page: Page, view: str) -> str:
    """The timeline is shown at one step of the run, with an op selected that has shapes, a stack and a backward."""
    if view != "timeline":
        return view
    page.go("operators")
    page.find(".bar input[type=search]").send_keys("aten::addmm")
    page.settle()
    page.click(".named a")
    event = page.js("return document.querySelector('.details').dataset.event")
    data = page.js("return {...document.querySelector('.timeline canvas').dataset}")
    middle = (int(data["from"]) + int(data["to"])) / 2
    span = float(data["span"])
    page.open("pictures")
    return f"timeline&event={event}&from={round(middle - span / 28)}&to={round(middle + span / 28)}"


if __name__ == "__main__":
    main()
