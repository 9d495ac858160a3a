"""What tensors on the same memory share: a version counter, and the memory accounting of a recorder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import tap

_SLOT, _NAMESPACE = tap.SLOT, tap.NAMESPACE


if TYPE_CHECKING or tap.HELPER is None:

    class Storage:
        """Shared by every tensor that looks at one block of memory. `version` counts in-place changes."""

        __slots__ = ("version", "__weakref__")

        def __init__(self) -> None:
            self.version = 0

    class CountedStorage(Storage):
        """A storage whose allocation a recorder has seen; it reports its end too (`namespace` gives it what does that).
        Made while memory is recorded."""

        __slots__ = ("nbytes",)

        def __init__(self, array: Any) -> None:
            self.version = 0
            nbytes = self.nbytes = array.nbytes
            recorder = _SLOT.recorder
            if recorder is not None:
                # The token's own address stands for the block's: NumPy takes 1 µs to tell a data pointer.
                recorder.allocated(nbytes, id(self))

else:
    Storage, CountedStorage = tap.HELPER.Storage, tap.HELPER.CountedStorage


class OwnVersion(Storage):
    """A version counter apart from that of the memory's other tensors, as `x.data` has. It keeps their token, whose end
    is the end of the memory."""

    __slots__ = ("shared",)

    def __init__(self, shared: Storage) -> None:
        self.version = 0
        self.shared = shared


class InferenceStorage(Storage):
    """Memory of a tensor made in inference mode: nobody counts its changes, and no graph may lead through it. It keeps the
    token by which a recorder knows the memory, if there is one."""

    __slots__ = ("counted",)

    def __init__(self, counted: CountedStorage | None = None) -> None:
        self.counted = counted

    @property
    def version(self) -> int:
        if not _NAMESPACE["IN_INFERENCE"]():
            raise RuntimeError(
                "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
                "computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and "
                "use it in autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`."
            )
        return 0

    @version.setter
    def version(self, value: int) -> None:
        """There is no counter."""


def mark_inference(t: Any) -> None:
    """Note that a new tensor was made in inference mode, if the calling thread is in it."""
    storage = t._v
    if (storage is None or type(storage) is CountedStorage) and _NAMESPACE["IN_INFERENCE"]():
        t._v = InferenceStorage(storage)


def next_version(storage: Any) -> int:
    """The version after a change in place; inference tensors are changed in inference mode only."""
    if type(storage) is InferenceStorage and not _NAMESPACE["IN_INFERENCE"]():
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a "
            "normal tensor before doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more details."
        )
    return int(storage.version) + 1


def view_version(storage: Any) -> int:
    """The version that a new view is good for; inference tensors have none."""
    return 0 if type(storage) is InferenceStorage else int(storage.version)


class View:
    """How a tensor is a differentiable view: its base tensor and the storage version its grad_fn is good for.

    `replay` remakes the view from the base where strides alone cannot (another dtype on the same bytes). Subclasses
    stand for views that must not be changed in place while a graph is built; views of them are of their class too.
    """

    __slots__ = ("base", "version", "replay")

    def __init__(self, base: Any, version: int, replay: Any = None) -> None:
        self.base = base
        self.version = version
        self.replay = replay


class OneOfMany(View):
    """A view that came with others from one op (split, unbind)."""

    __slots__ = ()


class OfFunction(View):
    """A view that a custom Function returned."""

    __slots__ = ()


class Unwatched(View):
    """A view made in no_grad mode."""

    __slots__ = ()
