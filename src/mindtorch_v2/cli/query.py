"""Ask a file by SQL: events, steps, modules, memory and kernels as tables.

FILE is a trace of torch or of this package, a spool, a folder that `mindtorch profile` wrote, or - for stdin. DuckDB answers
(pip install 'mindtorch-v2[query]'). Without a question the tables are listed with their columns; docs/query.md explains them.

examples:
  mindtorch query train.profile "select name, sum(self_cpu_time_total) us from events group by name order by us desc limit 5"
  mindtorch query train.profile "select step, duration_us from steps order by duration_us desc limit 3" --csv
  mindtorch query trace.json.gz "select device, stream, sum(duration_us) from kernels group by all" --json
"""

from __future__ import annotations

import argparse
import re
from typing import Any

from ..profiler.analyse.metrics import Metrics
from ..profiler.capture.capture import Capture
from ..profiler.export.rows import csv_lines, no_formula
from ..profiler.export.tables import TABLES, arrow_table
from ..profiler.export.texts import json_encoder
from .files import read_capture
from .reporters.table import code, markdown_table
from .terminal import BOLD, UserError, add_formats, cut, paint, say, visible

_WIDEST = 80
_json = json_encoder(indent=1, default=str)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a trace, a spool, a folder, or - for stdin")
    parser.add_argument("sql", metavar="SQL", nargs="?", help="the question; without it tables and columns are listed")
    add_formats(parser, FORMATS)


def run(options: argparse.Namespace) -> int:
    duckdb = _duckdb()
    capture = read_capture(options.file)
    sql = _LISTING if options.sql is None else options.sql
    with duckdb.connect() as connection:
        for name, table in _tables(capture, None if options.sql is None else sql).items():
            connection.register(name, table)
        try:
            answer = connection.execute(sql)
            titles = [column[0] for column in answer.description or ()]
            rows = answer.fetchall()
        except duckdb.Error as error:
            said = "; ".join(str(error).splitlines()[:2])
            raise UserError(f"{said}; tables: {', '.join(TABLES)}; without SQL their columns are listed") from error
    print(FORMATS[options.format](titles, rows), end="")
    if not rows:
        say("no row answers this")
    return 0


_LISTING = (
    "select table_name as 'table', column_name as 'column', data_type as 'type' from duckdb_columns() "
    "where not internal order by list_position(["
    + ", ".join(f"'{name}'" for name in TABLES)
    + "], table_name), column_index"
)


def _duckdb() -> Any:
    try:
        import duckdb  # noqa: PLC0415
        import pyarrow  # noqa: F401, PLC0415
    except ImportError as error:
        raise UserError("queries need DuckDB and pyarrow: pip install 'mindtorch-v2[query]'") from error
    return duckdb


def _tables(capture: Capture, sql: str | None) -> dict[str, Any]:
    """The tables that a question names; all of them without one."""
    metrics = Metrics(capture)
    words = set(TABLES) if sql is None else set(re.findall(r"\w+", sql.lower()))
    return {name: arrow_table(make(metrics)) for name, make in TABLES.items() if name in words}


def _text(titles: list[str], rows: list[tuple[Any, ...]]) -> str:
    shown = [tuple(cut(visible(_cell(value)), _WIDEST) for value in line) for line in [tuple(titles), *rows]]
    widths = [max(map(len, column)) for column in zip(*shown)]
    right = [all(isinstance(row[place], (int, float, type(None))) for row in rows) for place in range(len(titles))]
    lines = [
        "  ".join(
            f"{cell:>{width}}" if number else f"{cell:<{width}}" for cell, width, number in zip(line, widths, right)
        )
        for line in shown
    ]
    return "\n".join([paint(lines[0].rstrip(), BOLD), *(line.rstrip() for line in lines[1:])]) + "\n" if titles else ""


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)


def _markdown(titles: list[str], rows: list[tuple[Any, ...]]) -> str:
    cells = [
        tuple(code(visible(_cell(value))) if isinstance(value, str) else _cell(value) for value in row) for row in rows
    ]
    return markdown_table([tuple(titles), *cells]) if titles else ""


def _csv(titles: list[str], rows: list[tuple[Any, ...]]) -> str:
    return csv_lines([titles, *(map(no_formula, row) for row in rows)])


def _as_json(titles: list[str], rows: list[tuple[Any, ...]]) -> str:
    return _json([dict(zip(titles, row)) for row in rows]) + "\n"


FORMATS = {"text": _text, "json": _as_json, "csv": _csv, "markdown": _markdown}
