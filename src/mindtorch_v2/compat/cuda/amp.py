"""torch.cuda.amp: the older spelling of torch.amp for CUDA, which is not available."""

from ...amp.old_names import GradScaler, custom_bwd, custom_fwd
from ...amp.old_names import cuda_autocast as autocast

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]
