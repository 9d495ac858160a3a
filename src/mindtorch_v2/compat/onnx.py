"""torch.onnx where no graph of a model is there to be written; how a library's operators would be written is taken in
and never used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from .fx import no_graph


def export(model: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Says what to do instead."""
    no_graph("torch.onnx.export")


def is_in_onnx_export() -> bool:
    return False


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Any, opset_version: int) -> None:
    """How an operator is written to a file; no file is written."""


unregister_custom_op_symbolic = register_custom_op_symbolic


def parse_args(*arg_descriptors: str) -> Callable[[Any], Any]:
    """A decorator of such functions, which gives them back."""
    return lambda function: function
