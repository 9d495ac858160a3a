"""torch.onnx where no graph of a model is there to be written."""

from __future__ import annotations

from typing import Any, NoReturn

from .fx import no_graph


def export(model: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Says what to do instead."""
    no_graph("torch.onnx.export")


def is_in_onnx_export() -> bool:
    return False
