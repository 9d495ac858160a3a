"""Objects and arrays for attacks on the compiled kernels: `Maker` makes the arguments of one call from its seed and number."""

from __future__ import annotations

from typing import Any

import numpy as np

from guarded import DTYPES, LAYOUTS, Array, Guarded
from mindtorch_v2.kernels.compiled import C

HUGE = (2**31, 2**62, 2**63 - 1, 2**63, 2**70, -(2**63), -(2**70), 10**400)
NUMBERS = (0, 1, -1, 2, 3, 7, 1 << 24, 0.5, -1.5, 0.0, 1e300, float("nan"), float("inf"), True, False, None)
SIZES = (0, 1, 1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 33)
STREAM = 316  # int64 of a stream of random words


class Boom(Exception):
    """Raised by objects that do not want to be read."""


class Refusing:
    """Raises however it is read."""

    def __index__(self) -> int:
        raise Boom

    __float__ = __bool__ = __len__ = __index__


class Changing:
    """Is read as 1, and changes the arrays and lists of the call it is in."""

    def __init__(self) -> None:
        self.others: list[Any] = []

    def __index__(self) -> int:
        for other in self.others:
            if isinstance(other, list):
                other.clear()
            elif type(other) is np.ndarray:
                try:
                    other.shape = other.shape[::-1]
                    other.resize(0, refcheck=False)
                except ValueError:
                    pass
        return 1

    def __float__(self) -> float:
        return float(self.__index__())

    def __bool__(self) -> bool:
        return bool(self.__index__())


class Whole(int):
    """An int of a class of its own."""

    def __bool__(self) -> bool:
        raise Boom


class Maker:
    """Makes the arguments of one call."""

    def __init__(self, seed: int, number: int) -> None:
        self.rng = np.random.default_rng([seed, number])
        self.guarded: list[Guarded] = []
        self.real = self.pick(("float32", "float64"))

    def pick(self, options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def chance(self, of: int) -> bool:
        return bool(self.rng.integers(of) == 0)

    def n(self) -> int:
        return int(self.pick(SIZES))

    def shape(self, most: int = 3) -> tuple[int, ...]:
        return tuple(self.n() for _ in range(int(self.rng.integers(most + 1))))

    def flag(self) -> bool:
        return bool(self.rng.integers(2))

    def number(self) -> float:
        return float(self.pick((0.0, 0.5, -1.0, 1.0, 3.25, 1e30)))

    def dim(self, nd: int) -> int:
        return int(self.rng.integers(-nd, nd)) if nd else 0

    def made(self, values: Array, layout: str | None = None) -> Array:
        """An array of these values, mostly plain; now and then one without guards, which has memory of its own."""
        if layout is None:
            layout = "plain" if self.rng.integers(8) else self.pick(LAYOUTS)
        if layout == "plain" and self.chance(6):
            return np.ascontiguousarray(values)
        guarded = Guarded(values, layout)
        self.guarded.append(guarded)
        return guarded.array

    def values(self, shape: tuple[int, ...], dtype: str) -> Array:
        given = DTYPES[dtype]
        if given.kind in "iub":
            whole: Array = self.rng.integers(0, 2 if given.kind == "b" else 5, shape).astype(given)
            return whole
        drawn = self.rng.standard_normal(shape)
        if self.chance(4):
            drawn = np.where(self.rng.random(shape) < 0.3, self.pick((np.nan, np.inf, -np.inf, 0.0, 1e30)), drawn)
        with np.errstate(all="ignore"):
            return np.asarray(drawn).astype(given)

    def real_of(self, *shape: int, dtype: str | None = None) -> Array:
        return self.made(self.values(shape, dtype or self.real))

    def single(self, *shape: int) -> Array:
        return self.real_of(*shape, dtype="float32")

    def whole(self, *shape: int) -> Array:
        return self.real_of(*shape, dtype="int64")

    def truths(self, *shape: int) -> Array:
        return self.real_of(*shape, dtype="bool")

    def any_of(self, *shape: int) -> Array:
        return self.real_of(
            *shape, dtype=self.pick(("float32", "float64", "int64", "bool", "float16", "bfloat16", "int32"))
        )

    def index(self, size: int, *shape: int) -> Array:
        """Indices below a size; now and then wild ones."""
        drawn = self.rng.integers(0, max(size, 1), shape)
        if self.chance(5) and drawn.size:
            drawn.reshape(-1)[int(self.rng.integers(drawn.size))] = self.pick((-1, size, 2**62, -(2**63), 2**63 - 1))
        return self.made(np.asarray(drawn, np.int64))

    def stream(self) -> Array:
        made = np.zeros(STREAM, np.int64)
        C.seed_words(made, int(self.rng.integers(1 << 31)))
        if self.chance(8):
            made[312] = self.pick((-1, 0, 624, 625, 2**62))  # where it stands
        return self.made(made)

    def another(self, array: Array) -> Array:
        """An array of the same type in another shape: a dimension more, fewer, longer, shorter, or none left."""
        shape, change = list(array.shape), int(self.rng.integers(5))
        at = int(self.rng.integers(len(shape))) if shape else 0
        if change == 0 or not shape:
            shape.insert(at, int(self.pick((0, 1, 2))))
        elif change == 1:
            shape.pop(at)
        elif change == 2:
            shape[at] = self.n()
        elif change == 3:
            shape.reverse()
        else:
            shape = [0, *shape[1:]]
        kinds = {dtype: name for name, dtype in reversed(DTYPES.items())}
        return self.made(self.values(tuple(shape), kinds.get(array.dtype, "float32")))

    def anything(self) -> Any:
        kind = int(self.rng.integers(9))
        if kind == 0:
            return self.pick(HUGE)
        if kind == 1:
            return self.pick(NUMBERS)
        if kind == 2:
            return self.pick((Refusing(), Changing(), Whole(1), "out", b"", object(), np.float32, np.dtype(np.float32)))
        if kind == 3:
            return tuple(self.pick((0, 1, 2, -1, 3, 2**62, "x", None)) for _ in range(int(self.rng.integers(4))))
        if kind == 4:
            return [self.real_of(*self.shape(2)) for _ in range(int(self.rng.integers(3)))] + self.pick(
                ([], [None], ["x"])
            )
        if kind == 5:
            return self.pick((np.float32(1), np.int64(2), np.bool_(True), np.float64(0.5)))
        return self.made(self.values(self.shape(4), self.pick(tuple(DTYPES))), self.pick(LAYOUTS))
