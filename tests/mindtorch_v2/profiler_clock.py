"""A clock that tests set, and regions and memory events that stand in for ops."""

from collections.abc import Iterator

import pytest

from mindtorch_v2 import _tap
from mindtorch_v2.profiler.recorder import RECORDER


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
    real = _tap.NAMESPACE["clock"]
    fake = Clock()
    _tap.set_clock(fake)
    try:
        yield fake
    finally:
        _tap.set_clock(real)


def op(name: str, shapes: list[tuple[int, ...]] | None = None, seq: int = -1, scope: int = 0) -> _tap.region:
    """A region that looks like an op."""
    inputs = 0
    if shapes is not None and _tap.SLOT.flags & _tap.SHAPES:
        count = len(shapes)
        key = _tap.InputRecord(tuple(shapes), tuple(shapes), ("float",) * count, (None,) * count)  # type: ignore[arg-type]
        inputs = _tap.intern_inputs(key)
    return _tap.region(_tap.event_id(name, scope), seq, inputs)


def allocate(nbytes: int, address: int) -> None:
    if _tap.SLOT.recorder is not None and _tap.SLOT.flags & _tap.MEMORY:
        RECORDER.allocated(nbytes, address)


def free(nbytes: int, address: int) -> None:
    lane = _tap.current_lane()
    if lane is not None:
        lane.note((_tap.clock(), -nbytes, address))
