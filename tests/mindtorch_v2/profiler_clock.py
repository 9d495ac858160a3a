"""A clock that tests set, and regions and memory events that stand in for ops."""

from collections.abc import Iterator

import pytest

from mindtorch_v2.core import tap
from mindtorch_v2.profiler.record.recorder import RECORDER


class Clock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 1_000_000

    def __call__(self) -> int:
        return self.now

    def advance(self, us: float) -> None:
        self.now += round(us * 1000)


@pytest.fixture
def clock() -> Iterator[Clock]:
    real = tap.NAMESPACE["clock"]
    fake = Clock()
    tap.set_clock(fake)
    try:
        yield fake
    finally:
        tap.set_clock(real)


def op(name: str, shapes: list[tuple[int, ...]] | None = None, seq: int = -1, scope: int = 0) -> tap.region:
    """A region that looks like an op."""
    inputs = 0
    if shapes is not None and tap.SLOT.flags & tap.SHAPES:
        count = len(shapes)
        key = tap.InputRecord(tuple(shapes), tuple(shapes), ("float",) * count, (None,) * count)  # type: ignore[arg-type]
        inputs = tap.intern_inputs(key)
    return tap.region(tap.event_id(name, scope), seq, inputs)


def allocate(nbytes: int, address: int) -> None:
    if tap.SLOT.recorder is not None and tap.SLOT.flags & tap.MEMORY:
        RECORDER.allocated(nbytes, address)


def free(nbytes: int, address: int) -> None:
    lane = tap.current_lane()
    if lane is not None:
        lane.note((tap.clock(), -nbytes, address))
