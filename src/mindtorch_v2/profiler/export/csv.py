"""CSV: all events as rows, in the columns of event lists."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..analyse.metrics import Metrics
from ..capture.capture import Capture
from .files import open_binary
from .flat import columns_of_events
from .rows import csv_lines, no_formula
from .texts import encoded

_CHUNK = 8192


def write_csv(capture: Capture, path: str | os.PathLike[str]) -> None:
    """Write all events of a capture; a path that ends in `.gz` is compressed."""
    columns = columns_of_events(Metrics(capture))
    values = [
        column.tolist() if isinstance(column, np.ndarray) else map(no_formula, column) for column in columns.values()
    ]
    rows = zip(*values)
    with open_binary(path) as file:
        file.write(_lines([list(columns)]))
        while part := list(itertools.islice(rows, _CHUNK)):
            file.write(_lines(part))


def _lines(rows: Iterable[Sequence[Any]]) -> bytes:
    return encoded(csv_lines(rows))
