"""How tensors and storages are sent to other processes: their memory is shared, not copied.

multiprocessing's own pickler asks these functions, wherever it is used: queues, pipes, pools, managers, and arguments
of processes that are not forked.
"""

from __future__ import annotations

from multiprocessing import reduction
from typing import Any

import numpy as np

from ..core import segments
from ..core.meta import MetaArray, meta
from ..core.segments import POSIX, Segment, segment_of
from ..core.tensor import LAZY, PLAIN, Parameter, Tensor, address, alias, in_memory, make, make_lazy, memory_owner
from . import aliases
from .methods import Elements
from .storage import TypedStorage, UntypedStorage

_REFUSED = (
    "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support crossing "
    "process boundaries.  If you just want to transfer the data, call detach() on the tensor before serializing (e.g., "
    "putting it on the queue)."
)
_ENDED = (
    "; the process that sent the tensor must live until it is received: have it wait, or send with "
    "torch.multiprocessing.set_sharing_strategy('file_system')"
)


# --- segments ---------------------------------------------------------------------------------------------------------


def reduce_segment(segment: Segment) -> Any:
    """Shared memory, sent by name or by a descriptor."""
    if not segment.nbytes:
        return segments.create, (0,)
    if segment.path is not None:
        return segments.attach_name, (segments.send_name(segment), segment.nbytes)
    try:
        return rebuild_segment, (reduction.DupFd(segments.descriptor(segment)), segment.nbytes)
    except OSError as error:
        raise segments.failed("unable to send shared memory", error) from None


def rebuild_segment(descriptor: Any, nbytes: int) -> Segment:
    """The memory of a descriptor that multiprocessing carried here."""
    try:
        fd = descriptor.detach()
    except (OSError, EOFError) as error:
        raise type(error)(f"unable to receive shared memory: {error}{_ENDED}") from error
    except RuntimeError as error:  # "received 0 items of ancdata": there was no room for the descriptor
        raise RuntimeError(f"unable to receive shared memory: {error}{segments.MORE_FILES}") from error
    return segments.attach_descriptor(fd, nbytes)


# --- tensors ----------------------------------------------------------------------------------------------------------


def reduce_tensor(tensor: Tensor) -> Any:
    """A tensor, whose memory becomes shared memory."""
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(_REFUSED)
    kind = Tensor if type(tensor) in LAZY else tensor.__class__
    if isinstance(tensor._a, MetaArray):
        return rebuild_meta_tensor, (kind, tensor._a.shape, tensor._a.dtype, tensor.requires_grad)
    a = in_memory(tensor)._a
    if not memory_owner(a).nbytes:  # nothing to share
        return rebuild_empty_tensor, (kind, a.shape, a.dtype, tensor.requires_grad)
    aliases.share((tensor,))
    a = in_memory(tensor)._a
    segment: Any = segment_of(memory_owner(a))
    offset = address(a) - segment.address if a.size else 0
    lazy = type(tensor) if type(tensor) in LAZY else None
    return rebuild_tensor, (kind, segment, (offset, a.shape, a.strides, a.dtype, tensor.requires_grad, lazy))


def rebuild_tensor(cls: Any, storage: Any, metadata: Any) -> Any:
    """A tensor on shared memory that was received."""
    offset, shape, strides, dtype, requires_grad, lazy = metadata
    array = np.ndarray(shape, dtype, storage.array(), offset, strides)
    fresh = storage.token is None or storage.token() is None
    token = aliases.token_on(storage)
    t = alias(array, token if fresh else aliases.beside(token))
    return _finished(cls, t if lazy is None else make_lazy(t, lazy), requires_grad)


def rebuild_meta_tensor(cls: Any, shape: Any, dtype: Any, requires_grad: bool) -> Any:
    return _finished(cls, make(meta(shape, dtype)), requires_grad)


def rebuild_empty_tensor(cls: Any, shape: Any, dtype: Any, requires_grad: bool) -> Any:
    return _finished(cls, make(np.empty(shape, dtype)), requires_grad)


def _finished(cls: Any, t: Tensor, requires_grad: bool) -> Any:
    if cls is Parameter:
        return Parameter(t, requires_grad=requires_grad)
    return t.requires_grad_() if requires_grad else t


def _reduce_elements(elements: Elements) -> Any:
    """The memory of a tensor whose class says itself how the rest of it is sent."""
    return reduce_tensor(elements.tensor.detach() if elements.tensor.requires_grad else elements.tensor)


# --- storages ---------------------------------------------------------------------------------------------------------


def reduce_storage(storage: UntypedStorage) -> Any:
    if isinstance(storage._owner, MetaArray):
        raise RuntimeError("Cannot pickle meta storage; try pickling a meta tensor instead")
    return rebuild_storage, (type(storage), storage._segment(), storage.dtype)


def rebuild_storage(cls: Any, segment: Segment, dtype: Any) -> Any:
    untyped = UntypedStorage._on_segment(segment)
    return untyped if cls is UntypedStorage else cls(wrap_storage=untyped, dtype=dtype)


def init_reductions() -> None:
    """Have multiprocessing send tensors this way. Where memory cannot be shared, they travel as copies."""
    if POSIX:
        for tensors in PLAIN:
            reduction.register(tensors, reduce_tensor)
        for storages in (UntypedStorage, TypedStorage):
            reduction.register(storages, reduce_storage)
        reduction.register(Segment, reduce_segment)
        reduction.register(Elements, _reduce_elements)
