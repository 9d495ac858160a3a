"""Timer: how long a statement takes."""

from __future__ import annotations

import textwrap
import time
import timeit as _timeit
from collections.abc import Callable
from typing import Any

from .measurement import Measurement

timer: Callable[[], float] = time.perf_counter


class Timer:
    """Times a Python statement, after torch.utils.benchmark.Timer."""

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: str = "python",
    ) -> None:
        if str(language).lower() not in ("python", "py", "language.python"):
            raise NotImplementedError("Timer runs Python statements only: mindtorch_v2 has no C++ library")
        stmt, setup = textwrap.dedent(stmt).strip(), textwrap.dedent(setup).strip()
        self._timer = _timeit.Timer(stmt, setup, timer, dict(globals or {}))
        self._about: dict[str, Any] = {
            "stmt": stmt, "label": label, "sub_label": sub_label, "description": description,
            "num_threads": num_threads, "env": env,
        }  # fmt: skip

    def _measurement(self, number: int, times: list[float]) -> Measurement:
        return Measurement(number, times, **self._about)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """One measurement of `number` runs, after a short warm-up."""
        self._timer.timeit(max(number // 100, 2))
        return self._measurement(number, [self._timer.timeit(number)])

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback: Callable[[int, float], Any] | None = None) -> Measurement:
        number, taken = self._timer.autorange(callback)
        return self._measurement(number, [taken])

    def _block_size(self, min_run_time: float) -> int:
        """Runs per block, so that reading the clock does not count."""
        number = 1
        while True:
            taken = self._timer.timeit(number)
            if (taken >= min_run_time / 1000 and taken >= 1e-4) or taken >= min_run_time:
                return number
            number *= 10

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Blocks of runs until `min_run_time` seconds have passed."""
        times: list[float] = []
        number = self._block_size(min_run_time)
        while not times or sum(times) < min_run_time:
            times.append(self._timer.timeit(number))
            if callback is not None:
                callback(number, times[-1])
        return self._measurement(number, times)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """Blocks of runs until they agree to within `threshold` of their median, or `max_run_time` has passed."""
        times: list[float] = []
        number = self._block_size(min_run_time)
        while True:
            times.append(self._timer.timeit(number))
            if callback is not None:
                callback(number, times[-1])
            found = self._measurement(number, times)
            settled = len(times) >= 4 and found.iqr / found.median < threshold and sum(times) >= min_run_time
            if settled or sum(times) >= max_run_time:
                return found
