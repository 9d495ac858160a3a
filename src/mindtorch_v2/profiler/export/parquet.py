"""Parquet: all events as columns, for DuckDB, Polars, pandas and the like. Needs pyarrow."""

from __future__ import annotations

import os
from typing import Any

from ...core.files import replaced
from ..analyse.metrics import Metrics
from ..capture.capture import Capture
from .flat import columns_of_events
from .texts import writable


def write_parquet(capture: Capture, path: str | os.PathLike[str]) -> None:
    """Write all events of a capture."""
    try:
        import pyarrow  # noqa: PLC0415
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError as error:
        raise ImportError("writing Parquet needs pyarrow: pip install 'mindtorch-v2[parquet]'") from error
    columns = columns_of_events(Metrics(capture))
    table = pyarrow.table({name: _writable(column) for name, column in columns.items()})
    with replaced(path) as file:
        pyarrow.parquet.write_table(table, file)


def _writable(column: Any) -> Any:
    """The column, its texts as UTF-8 can hold them."""
    if not isinstance(column, list):
        return column
    return [writable(value) if isinstance(value, str) else value for value in column]
