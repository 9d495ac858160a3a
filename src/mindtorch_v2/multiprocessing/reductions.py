"""torch.multiprocessing.reductions: how tensors and storages are sent to other processes (see `reductions`)."""

from __future__ import annotations

from ..binding.reductions import init_reductions, rebuild_meta_tensor, rebuild_tensor, reduce_storage, reduce_tensor

__all__ = ["init_reductions", "rebuild_meta_tensor", "rebuild_tensor", "reduce_storage", "reduce_tensor"]
