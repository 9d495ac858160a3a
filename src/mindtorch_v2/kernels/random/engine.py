"""The random number engine and `Generator`: MT19937 seeded, read and saved as torch's CPU generator does it.

It owns the stream of raw words and the 5056 bytes of saved state; distributions and tensors it does not know.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ...core.device import CPU, device
from ...core.fork import held_while_forking
from ..compiled import C

Words = npt.NDArray[np.int64]  # of 32 bits each
Words32 = npt.NDArray[np.uint32]
Words64 = npt.NDArray[np.uint64]
Doubles = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float32]
State = npt.NDArray[np.uint8]

DEFAULT_SEED = 67280421310721
_BLOCK = 624  # words MT19937 makes at a time
CHUNK = 1 << 15  # elements worked on at a time, so that the steps of one formula meet in the cache
# Arrays without dimensions: NumPy is twice as fast with them as with scalars.
_MASK24 = np.array((1 << 24) - 1, np.uint32)
_ULP24 = np.array(2.0**-24, np.float32)
_MASK53 = np.array((1 << 53) - 1, np.uint64)
_ULP53 = np.array(2.0**-53)
_NOTHING = np.empty(0, np.int64)
# Where a compiled stream keeps, after its block, how many words of that are used, whether any was drawn, and a normal.
_PLACE, _DRAWN, _HOLDS, _HELD = range(_BLOCK // 2, _BLOCK // 2 + 4)
_HALF_WORD = np.array(32, np.uint64)
_BULK = 1024  # from here on RandomState's bulk reading wins over pairing raw words

# The struct torch copies into `get_state()`; it kept 64-bit words for the key from its older engine.
_STATE = np.dtype(
    [
        ("seed", "<u8"),
        ("left", "<i4"),
        ("seeded", "<i4"),
        ("next", "<u8"),
        ("key", "<u8", (_BLOCK,)),
        ("normal_x", "<f8"),
        ("next_normal", "<f8"),
        ("normal_rho", "<f8"),
        ("has_next_normal", "<i4"),
        ("gap", "<i4"),
        ("next_float_normal", "<f4"),
        ("has_next_float_normal", "?"),
        ("tail", "V3"),
    ]
)


class Engine:
    """A stream of 32-bit words. Whoever draws holds `lock` for the whole of one operation."""

    __slots__ = (
        "_ahead", "_at", "_bits", "_block", "_fresh", "_held", "_made", "_position", "_reader", "lock",
        "next_float_normal", "seed",
    )  # fmt: skip

    def __init__(self, seed: int) -> None:
        self._made = False
        # Where there is a compiled stream, that is all of its memory, and what else is kept of it here does not count.
        self._block: Any = None if C is None else np.zeros(_BLOCK // 2 + 4, np.int64)
        self.lock = threading.Lock()
        self.reseed(seed)

    def __getattr__(self, name: str) -> Any:
        """NumPy's stream is made when first drawn from: NumPy loads its random module only then."""
        if name not in ("_bits", "_reader") or self._made:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._made = True
        self._bits = np.random.MT19937(0)
        self._reader = np.random.RandomState(self._bits)  # its seeding and its streams are frozen by NumPy's promise
        self._reader.seed(self.seed & 0xFFFFFFFF)
        return self._bits if name == "_bits" else self._reader

    def reseed(self, seed: int) -> None:
        """Start over from `seed` (64 bits are remembered, the low 32 are used, as in torch)."""
        self.seed = seed
        if self._block is not None:
            C.seed_words(self._block, seed & 0xFFFFFFFF)  # which forgets what was held, too
        elif self._made:
            self._reader.seed(seed & 0xFFFFFFFF)
        self._forget(_BLOCK)
        self._fresh = True  # nothing drawn yet: torch saves this as next=0, an exhausted block as next=624
        self._held: float | None = None
        self.next_float_normal: float | None = None

    @property
    def next_normal(self) -> float | None:
        """The normal number that is held for the next call."""
        if self._block is None:
            return self._held
        return float(self._block[_HELD].view(np.float64)) if self._block[_HOLDS] else None

    @next_normal.setter
    def next_normal(self, value: float | None) -> None:
        if self._block is None:
            self._held = value
            return
        self._block[_HOLDS] = value is not None
        if value is not None:
            self._block[_HELD] = np.float64(value).view(np.int64)

    # Words are read ahead to the end of NumPy's block, but never beyond: `save` can then tell where the stream is.

    def _forget(self, position: int) -> None:
        """Nothing is read ahead, and the stream stands at `position` of its block."""
        self._ahead, self._at, self._position = _NOTHING, 0, position

    def _read(self, n: int) -> Words:
        """The next `n` words of NumPy's stream, whatever was read ahead."""
        if n:
            self._position = (self._position + n - 1) % _BLOCK + 1
        words: Words = self._bits.random_raw(n).view(np.int64)
        return words

    def _fill(self, out: npt.NDArray[Any]) -> None:
        """Fill a contiguous array with words or uniform numbers of the compiled stream, which needs no reading ahead."""
        C.random_words(self._block, out)

    def pour(self, loop: str, out: npt.NDArray[Any], *arguments: Any) -> bool:
        """Fill an array by a compiled loop; False, with nothing drawn, where that does not take it, or is not there."""
        if self._block is None or not out.size:
            return False
        with self.lock:
            return bool(getattr(C, loop)(self._block, out, *arguments))

    def pour_normal(self, out: npt.NDArray[Any], mean: float = 0.0, std: float = 1.0) -> bool:
        """Fill an array with normal numbers; False, with nothing drawn, where nothing is compiled that does it, and for a
        deviation that is none."""
        return self.pour("random_normals", out, mean, std)

    def pour_uniform(self, out: npt.NDArray[Any], low: float = 0.0, high: float = 1.0) -> bool:
        """The same with uniform numbers from [low, high)."""
        return self.pour("random_uniforms", out, low, high)

    def pour_integers(self, out: npt.NDArray[np.int64], low: int, span: int) -> bool:
        """The same with integers from ``low`` on, a word each."""
        return self.pour("random_below", out, low, span)

    def pour_order(self, out: npt.NDArray[np.int64]) -> bool:
        """The same with the numbers 0, 1, ..., each but the last swapped in turn with itself or a later one."""
        return out.size > 1 and self.pour("random_order", out)

    def words32(self, n: int) -> Words32:
        """The next `n` words."""
        return self.words(n).astype(np.uint32)

    def words(self, n: int) -> Words:
        """The next `n` words, which nobody may change."""
        if self._block is not None:
            made: Words = np.empty(n, np.int64)
            self._fill(made)
            return made
        start, ahead = self._at, self._ahead
        if start + n <= ahead.size:
            self._at = start + n
            return ahead[start : start + n]
        # An interrupt may lose words that were read. It finds a state that can be saved and drawn from at all times.
        self._fresh, self._at = False, ahead.size
        parts = [ahead[start:]]
        missing = n - parts[0].size
        if missing >= _BLOCK and missing == n:
            self._forget(self._position)
            return self._read(n)
        while missing:
            if missing >= _BLOCK:
                self._forget(self._position)
                parts.append(self._read(missing))
                break
            ahead = self._read(_BLOCK - self._position or _BLOCK)
            used = min(missing, ahead.size)
            self._ahead, self._at = ahead, used
            parts.append(ahead[:used])
            missing -= used
        return np.concatenate(parts)

    def words64(self, n: int) -> Words64:
        """The next `n` pairs of words as 64-bit integers, first word on top."""
        if n < _BULK or self._block is not None:
            return _paired(self.words(2 * n))
        words = self._ahead[self._at :]
        if words.size % 2:
            words = np.concatenate([words, self._read(1)])
        count = n - words.size // 2
        self._forget((self._position + 2 * count - 1) % _BLOCK + 1)
        self._fresh = False
        tail: Words64 = self._reader.randint(0, 1 << 64, count, dtype=np.uint64)
        return np.concatenate([_paired(words), tail]) if words.size else tail

    def doubles(self, n: int) -> Doubles:
        """`n` uniform numbers in [0, 1) of 53 bits, two words each."""
        if self._block is not None:
            made: Doubles = np.empty(n, np.float64)
            self._fill(made)
            return made
        words = self.words64(n)
        words &= _MASK53
        # Signed integers convert faster, and 53 bits leave the sign alone.
        uniform: Doubles = words.view(np.int64).astype(np.float64)
        uniform *= _ULP53
        return uniform

    def double_list(self, n: int) -> list[float]:
        """`doubles` as a list, without arrays where these cost more than they save."""
        if n >= 16:
            uniform: list[float] = self.doubles(n).tolist()
            return uniform
        words: list[int] = self.words(2 * n).tolist()
        return [((high & 0x1FFFFF) << 32 | low) * 2.0**-53 for high, low in zip(words[0::2], words[1::2])]

    def floats(self, n: int) -> Floats:
        """`n` uniform numbers in [0, 1) of 24 bits, one word each."""
        uniform: Floats = np.empty(n, np.float32)
        self.fill_floats(uniform)
        return uniform

    def fill_floats(self, out: Floats) -> None:
        """Fill a contiguous array with such numbers."""
        if self._block is not None:
            self._fill(out)
            return
        flat = out.reshape(-1)
        for start in range(0, flat.size, CHUNK):
            part = flat[start : start + CHUNK]
            part[...] = (self.words32(part.size) & _MASK24).view(np.int32)  # as in `doubles`
            part *= _ULP24

    def save(self) -> State:
        """The state as torch lays it out."""
        if self._block is not None:
            key, position = self._block.view(np.uint32)[:_BLOCK], int(self._block[_PLACE])
            fresh = not self._block[_DRAWN]
        else:
            stream: Any = self._bits.state["state"]
            key, position, fresh = stream["key"], stream["pos"], self._fresh
        following = position - (self._ahead.size - self._at)
        state = np.zeros((), _STATE)
        state["seed"] = self.seed
        state["left"] = _BLOCK + 1 - following
        state["seeded"] = 1
        state["next"] = 0 if fresh else following
        state["key"] = key
        if self.next_normal is not None:
            state["has_next_normal"], state["next_normal"] = 1, self.next_normal
        if self.next_float_normal is not None:
            state["has_next_float_normal"], state["next_float_normal"] = True, self.next_float_normal
        return np.frombuffer(state.tobytes(), np.uint8).copy()

    def load(self, saved: State) -> None:
        """Continue from a state made by `save` or by torch."""
        state = np.frombuffer(saved.tobytes(), _STATE)[0]
        left, following = int(state["left"]), int(state["next"])
        # `left` counts down to the next refill; 1 means the block is used up (or fresh), whatever `next` says.
        in_step = left == 1 or following == _BLOCK + 1 - left
        if not (state["seeded"] and 0 < left <= _BLOCK and following <= _BLOCK and in_step):
            raise RuntimeError("Invalid mt19937 state")
        key = state["key"].astype(np.uint32)
        if self._block is not None:
            self._block.view(np.uint32)[:_BLOCK] = key
            self._block[_PLACE], self._block[_DRAWN] = _BLOCK + 1 - left, not (left == 1 and following == 0)
        else:
            self._bits.state = {"bit_generator": "MT19937", "state": {"key": key, "pos": _BLOCK + 1 - left}}
        self._forget(_BLOCK + 1 - left)
        self._fresh = left == 1 and following == 0
        self.seed = int(state["seed"])
        self.next_normal = float(state["next_normal"]) if state["has_next_normal"] else None
        self.next_float_normal = float(state["next_float_normal"]) if state["has_next_float_normal"] else None


def _paired(words: Words) -> Words64:
    """Pairs of words as 64-bit integers, first word on top."""
    wide: Words64 = words.view(np.uint64)
    return (wide[0::2] << _HALF_WORD) | wide[1::2]


class _Exchange:
    """How a state leaves and enters a generator: as the array itself, until told otherwise."""

    __slots__ = ("from_array", "to_array")

    def __init__(self) -> None:
        self.from_array: Callable[[State], Any] = _as_is
        self.to_array: Callable[[Any], Any] = _as_is


def _as_is(state: Any) -> Any:
    return state


_exchange = _Exchange()


class Generator:
    """torch.Generator for the CPU. Its state is a uint8 array, unless `exchange_states_as` says otherwise."""

    __slots__ = ("__dict__", "__weakref__", "_engine")

    def __init__(self, device: Any = "cpu") -> None:
        _require_cpu(device)
        self._engine = Engine(DEFAULT_SEED)

    @property
    def device(self) -> device:
        return CPU

    def manual_seed(self, seed: int) -> Generator:
        """Seed with a number from [-2**63, 2**64); negative ones stand for themselves plus 2**64."""
        wrapped = _unsigned_seed(seed)
        with self._engine.lock:
            self._engine.reseed(wrapped)
        return self

    def seed(self) -> int:
        """Seed from the operating system's entropy and return that seed."""
        chosen = int.from_bytes(os.urandom(8), "little")
        with self._engine.lock:
            self._engine.reseed(chosen)
        return chosen

    def initial_seed(self) -> int:
        return self._engine.seed

    def get_state(self) -> Any:
        with self._engine.lock:
            state = self._engine.save()
        return _exchange.from_array(state)

    def set_state(self, new_state: Any) -> Generator:
        state = _checked_state(_exchange.to_array(new_state))
        with self._engine.lock:
            self._engine.load(state)
        return self

    def clone_state(self) -> Generator:
        """A new generator that continues from the same state."""
        twin = type(self)()
        with self._engine.lock:
            state = self._engine.save()
        twin._engine.load(state)
        return twin

    def get_offset(self) -> int:
        raise RuntimeError("CPU Generator does not use offset")

    def set_offset(self, offset: int) -> Generator:
        raise RuntimeError("CPU Generator does not use offset")

    def graphsafe_get_state(self) -> Generator:
        raise NotImplementedError("graphsafe_get_state is not supported in this Generator")

    def graphsafe_set_state(self, state: Any) -> Generator:
        raise NotImplementedError("graphsafe_set_state is not supported in this Generator")

    def __reduce__(self) -> tuple[Any, ...]:
        with self._engine.lock:
            return type(self), (), self._engine.save()

    def __setstate__(self, state: State) -> None:
        self._engine.load(state)


def exchange_states_as(
    from_array: Callable[[State], Any], to_array: Callable[[Any], Any]
) -> tuple[Callable[[State], Any], Callable[[Any], Any]]:
    """Have every generator give and take its state as what these two convert to and from (tensors, say).

    Returns the two that were in force.
    """
    previous = _exchange.from_array, _exchange.to_array
    _exchange.from_array, _exchange.to_array = from_array, to_array
    return previous


def engine_of(generator: Generator | None) -> Engine:
    """The engine to draw from: that of `generator`, or of the default one."""
    if generator is None:
        return default_generator._engine
    if not isinstance(generator, Generator):
        raise TypeError(f"argument 'generator' must be torch.Generator, not {type(generator).__name__}")
    return generator._engine


def _require_cpu(wanted: Any) -> None:
    found = wanted if isinstance(wanted, device) else device(wanted)
    if found.type != "cpu":
        raise RuntimeError(f"Cannot make a generator for device '{found}': random numbers are drawn on 'cpu' only")


def _unsigned_seed(seed: Any) -> int:
    if type(seed) is not int:
        raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
    if not -(1 << 63) <= seed < 1 << 64:
        raise ValueError("Overflow when unpacking long long")
    return seed % (1 << 64)


def _checked_state(state: Any) -> State:
    if not isinstance(state, np.ndarray):
        raise TypeError(f"expected a torch.ByteTensor, but got {type(state).__name__}")
    if state.dtype != np.uint8:
        raise TypeError("RNG state must be a torch.ByteTensor")
    if state.size != _STATE.itemsize:
        raise RuntimeError(
            f"Expected a CPUGeneratorImplState of size {_STATE.itemsize} "
            f"but found the input RNG state size to be {state.size}"
        )
    return state


default_generator = Generator()
if C is not None:
    C.draw_from(default_generator._engine._block, default_generator._engine.lock.locked)
# Half of a draw is no state for a child to start from.
held_while_forking(default_generator._engine.lock)
default_generator.seed()  # torch starts its default generator from entropy, too
