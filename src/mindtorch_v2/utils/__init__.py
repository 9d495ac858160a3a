"""torch.utils."""

from ..autograd.swapping import swap_tensors as swap_tensors
from . import checkpoint as checkpoint
from . import data as data
