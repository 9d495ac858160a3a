"""The result of a timing: seconds per run, and how to print them."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

_UNITS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))


def _scaled(seconds: float) -> str:
    unit, size = next(((u, s) for u, s in _UNITS if seconds >= s), _UNITS[-1])
    return f"{seconds / size:.2f} {unit}"


@dataclass
class Measurement:
    """Times of several blocks of `number_per_run` runs each."""

    number_per_run: int
    raw_times: list[float]
    stmt: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    num_threads: int = 1
    env: str | None = None
    metadata: dict[str, object] = field(default_factory=dict)

    @property
    def times(self) -> list[float]:
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def median(self) -> float:
        return statistics.median(self.times)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.times)

    @property
    def iqr(self) -> float:
        if len(self.times) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return high - low

    @property
    def title(self) -> str:
        name = self.label or self.stmt
        return name + (f": {self.sub_label}" if self.sub_label else "")

    def __repr__(self) -> str:
        which = "Median" if len(self.times) > 1 else "Time"
        lines = [f"<{type(self).__module__}.{type(self).__name__}>", self.title]
        if self.description:
            lines.append(self.description)
        lines.append(f"  {which}: {_scaled(self.median)}")
        if len(self.times) > 1:
            lines.append(f"  IQR:    {_scaled(self.iqr)}")
        threads = f"{self.num_threads} thread" + ("s" if self.num_threads > 1 else "")
        lines.append(f"  {len(self.times)} measurements, {self.number_per_run} runs per measurement, {threads}")
        return "\n".join(lines)
