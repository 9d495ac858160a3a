"""torch.cpu.amp: the older spelling of torch.amp for the CPU."""

from ...amp.grad_scaler import GradScaler
from ...amp.old_names import cpu_autocast as autocast

__all__ = ["GradScaler", "autocast"]
