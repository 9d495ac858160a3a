"""torch.utils.tensorboard: SummaryWriter through the tensorboard package or, where only that is installed, tensorboardX."""

from __future__ import annotations

from typing import Any

from . import writer as _writer

try:
    from tensorboardX import SummaryWriter as _Other
except ImportError:
    _Other = None

if _writer.EventFileWriter is None and _Other is None:
    raise ModuleNotFoundError(
        "No module named 'tensorboard': torch.utils.tensorboard writes through the tensorboard or the tensorboardX "
        "package, and neither is installed. Install one: pip install tensorboard",
        name="tensorboard",
    )

SummaryWriter: Any = _writer.SummaryWriter if _writer.EventFileWriter is not None else _Other
FileWriter = _writer.FileWriter

__all__ = ["FileWriter", "SummaryWriter"]
