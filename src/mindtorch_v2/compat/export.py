"""torch.export where no graph of a model is captured."""

from __future__ import annotations

from typing import Any, NoReturn

from .fx import no_graph


def export(mod: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Says what to do instead."""
    no_graph("torch.export.export")
