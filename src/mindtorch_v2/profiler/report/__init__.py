"""The report: one self-contained HTML file that shows a capture, offline, in any browser. Loaded when asked for."""

from typing import TYPE_CHECKING

from ...core.missing import attribute_finder

if TYPE_CHECKING:
    from .document import Report, make_report, write_report

__all__ = ["Report", "make_report", "write_report"]

# Most programs that profile write no report, and need not wait for this at import.
__getattr__ = attribute_finder(__name__, dict.fromkeys(__all__, "profiler.report.document"))
