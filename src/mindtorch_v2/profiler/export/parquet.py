"""Parquet: all events as columns, for DuckDB, Polars, pandas and the like. Needs pyarrow."""

from __future__ import annotations

import os

from ...core.files import replaced
from ..analyse.metrics import Metrics
from ..capture.capture import Capture
from .flat import columns_of_events
from .tables import arrow_table


def write_parquet(capture: Capture, path: str | os.PathLike[str]) -> None:
    """Write all events of a capture."""
    try:
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError as error:
        raise ImportError("writing Parquet needs pyarrow: pip install 'mindtorch-v2[parquet]'") from error
    table = arrow_table(columns_of_events(Metrics(capture)))
    with replaced(path) as file:
        pyarrow.parquet.write_table(table, file)
