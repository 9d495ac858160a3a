"""Parquet: all events as columns, for DuckDB, Polars, pandas and the like. Needs pyarrow."""

from __future__ import annotations

import os

from ..capture import Capture
from ..metrics import Metrics
from .flat import columns_of_events


def write_parquet(capture: Capture, path: str | os.PathLike[str]) -> None:
    """Write all events of a capture."""
    try:
        import pyarrow  # noqa: PLC0415
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError as error:
        raise ImportError("writing Parquet needs pyarrow: pip install 'mindtorch-v2[parquet]'") from error
    pyarrow.parquet.write_table(pyarrow.table(columns_of_events(Metrics(capture))), os.fspath(path))
