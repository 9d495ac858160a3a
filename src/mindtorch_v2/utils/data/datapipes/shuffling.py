"""How pipes that shuffle are switched and seeded. It does not know what they draw."""

from __future__ import annotations

import random
from typing import Any

from ..sampler import fresh_seed


class Shuffling:
    """A generator of its own, seeded anew before each round."""

    def __init__(self) -> None:
        self._enabled = True
        self._seed: int | None = None
        self._random = random.Random()

    def set_shuffle(self, shuffle: bool = True) -> Any:
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> Any:
        """The seed of the next round."""
        self._seed = seed
        return self

    def _reseed(self) -> None:
        self._random.seed(fresh_seed() if self._seed is None else self._seed)
        self._seed = None
