"""All rules, in the order in which they claim events: what is said once is not said again in other words."""

from __future__ import annotations

from ..analyse.metrics import Metrics
from ..capture.capture import Capture
from . import rules_devices, rules_ops, rules_run
from .findings import Finding, Rule, Run, find

RULES: tuple[Rule, ...] = (
    rules_run.notes,
    rules_devices.on_devices,
    rules_run.loader_waits,
    rules_run.imports,
    rules_run.start_up,
    rules_ops.loops,
    rules_ops.casts,
    rules_ops.copies,
    rules_ops.rebuilt,
    rules_ops.reads,
    rules_ops.small_batches,
    rules_run.outliers,
    rules_run.python_code,
    rules_run.warm_up,
    rules_run.collections,
    rules_run.busy_machine,
    rules_run.profiler_cost,
)


def advise(capture: Capture) -> list[Finding]:
    """What is worth knowing about a capture, what weighs most first."""
    return find(Run(Metrics(capture)), RULES)
