"""Recordings in every format for programs of others to read, and a headless Chromium for those that are web pages.

`make readers` runs these tests in an environment of their own; they are no part of the test suite.
"""

import functools
import json
import os
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait

import mindtorch_v2 as torch
from mindtorch_v2.profiler import ProfilerActivity, load, profile, record_function, schedule, tensorboard_trace_handler

WAIT_S = 120


@dataclass
class Run:
    """One recording: the folder with its files, and how many slices of each category it has."""

    name: str
    folder: Path
    slices: Counter[str]

    def file(self, suffix: str) -> Path:
        return self.folder / f"run{suffix}"


def train(prof: profile, steps: int = 4) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        with record_function('forward "quoted" é'):
            loss = model(torch.randn(5, 8)).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        prof.step()


def work_in_threads(prof: profile) -> None:
    """Two threads at once, one of which leaves its regions by exceptions."""

    def abort() -> None:
        for _ in range(20):
            try:
                with record_function("aborted"):
                    torch.ones(3) @ torch.ones(4)
            except RuntimeError:
                continue

    threads = [threading.Thread(target=abort), threading.Thread(target=train, args=(prof, 1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Squares(torch.utils.data.Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.ones(8) * index


def work_in_processes(prof: profile) -> None:
    """A model that is fed by two workers of a data loader."""
    model = torch.nn.Linear(8, 4)
    for batch in torch.utils.data.DataLoader(Squares(), batch_size=4, num_workers=2):
        model(batch).sum().backward()


EVERYTHING = {"record_shapes": True, "profile_memory": True, "with_stack": True, "with_modules": True}
THREADS = {"profile_memory": True, "with_stack": True, "all_threads": True}
PROGRAMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "plain": (train, {}),
    "everything": (train, EVERYTHING),
    "threads": (work_in_threads, THREADS),
    "workers": (work_in_processes, {**THREADS, "workers": True}),
}
SUFFIXES = (".json", ".json.gz", ".pftrace", ".speedscope.json", ".collapsed", ".pb.gz")
LAUNCHES = 60


def gpu_events() -> Iterator[dict[str, Any]]:
    """What torch leaves of a loop of ops that run on a GPU: launches, kernels, arrows from one to the other, memory."""
    for number in range(1, LAUNCHES + 1):
        start, both = 100.0 * number, {"External id": number, "correlation": 1000 + number}
        here, there = {"pid": 9, "tid": 9}, {"pid": 0, "tid": 7}
        arrow = {"id": 1000 + number, "cat": "ac2g", "name": "ac2g"}
        yield {
            "ph": "X",
            "cat": "cpu_op",
            "name": "aten::mm",
            "ts": start,
            "dur": 40.0,
            **here,
            "args": {"External id": number},
        }
        yield {
            "ph": "X",
            "cat": "cuda_runtime",
            "name": "cudaLaunchKernel",
            "ts": start + 5,
            "dur": 9.5,
            **here,
            "args": both,
        }
        yield {"ph": "s", "ts": start + 5, **here, **arrow}
        device = {"device": 0, "context": 1, "stream": 7, "grid": [1, 1, 1], **both}
        yield {"ph": "X", "cat": "kernel", "name": "sgemm", "ts": start + 30, "dur": 60.25, **there, "args": device}
        yield {"ph": "f", "ts": start + 30, "bp": "e", **there, **arrow}
        memory = {"Bytes": 512, "Addr": number << 9, "Device Type": 0, "Device Id": -1}
        yield {
            "ph": "i",
            "s": "t",
            "cat": "cpu_instant_event",
            "name": "[memory]",
            "ts": start + 3,
            **here,
            "args": memory,
        }


def write_loaded(folder: Path) -> None:
    """The files of a trace that was read back."""
    label = {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}}
    rank = {"backend": "nccl", "rank": 0, "world_size": 1}
    source = folder / "source.json"
    source.write_text(json.dumps({"distributedInfo": rank, "traceEvents": [label, *gpu_events()]}))
    trace = load(source)
    for suffix in SUFFIXES:
        trace.export(folder / f"run{suffix}")


def write_recorded(name: str, folder: Path) -> None:
    program, options = PROGRAMS[name]
    steps = schedule(wait=0, warmup=1, active=3, repeat=1) if program is train else None
    ready = tensorboard_trace_handler(str(folder / "tensorboard"))
    with profile(activities=[ProfilerActivity.CPU], schedule=steps, on_trace_ready=ready, **options) as prof:
        program(prof)
    prof.add_metadata_json("distributedInfo", '{"backend": "gloo", "rank": 0, "world_size": 1}')
    for suffix in SUFFIXES:
        prof.export(folder / f"run{suffix}")


@pytest.fixture(scope="session", params=[*PROGRAMS, "loaded"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "loaded":
        write_loaded(folder)
    else:
        write_recorded(request.param, folder)
    whole = load(folder / "run.json")
    slices = Counter(whole.kinds[number].category for track in whole.tracks for number in track.kind.tolist())
    assert slices["cpu_op"] > 50
    return Run(request.param, folder, slices)


class Pages(SimpleHTTPRequestHandler):
    """Files of a folder, and under /given/ those of another."""

    given = Path()

    def translate_path(self, path: str) -> str:
        name = urlsplit(path).path
        return (
            str(self.given / name.removeprefix("/given/"))
            if name.startswith("/given/")
            else super().translate_path(path)
        )

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


class Browser:
    """A page of a program in Chromium, which reads given files from the server the page comes from."""

    def __init__(self, pages: Path) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Pages, directory=str(pages)))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        options = webdriver.ChromeOptions()
        for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
            options.add_argument(argument)
        options.binary_location = found("chromium", "CHROMIUM")
        service = webdriver.ChromeService(found("chromedriver", "CHROMEDRIVER"))
        self.driver = webdriver.Chrome(options=options, service=service)
        self.driver.set_script_timeout(WAIT_S)

    def open(self, page: str, file: Path) -> None:
        """Go to a page; {file} in its address becomes the address of the file."""
        Pages.given = file.parent
        self.driver.get("about:blank")
        self.driver.get(f"{self.address}/{page.format(file=f'{self.address}/given/{file.name}')}")

    def wait_for(self, script: str) -> Any:
        return WebDriverWait(self.driver, WAIT_S).until(lambda driver: driver.execute_script(script))

    def close(self) -> None:
        self.driver.quit()
        self._server.shutdown()
        self._server.server_close()


def found(program: str, variable: str) -> str:
    path = os.environ.get(variable) or shutil.which(program)
    assert path, f"{program} is needed: install it, or name it in {variable}"
    return path


def browser_for(pages: Path) -> Iterator[Browser]:
    browser = Browser(pages)
    yield browser
    browser.close()
