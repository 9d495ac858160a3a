"""torch.distributed of a torch built without it: no process group can be made, and what needs one says so."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable
from typing import Any, NoReturn

_NO_GROUP = "Default process group has not been initialized, please make sure to call init_process_group."


class ReduceOp(enum.IntEnum):
    """How a reduction over processes combines."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8


reduce_op = ReduceOp


class Backend(str):
    """Names of backends, of which none is there."""

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl"

    __slots__ = ()


class ProcessGroup:
    """A set of processes; none can be made."""


class group:
    """The default group."""

    WORLD: ProcessGroup | None = None


GroupMember = group


class Work:
    """An operation that is under way."""


class DistError(RuntimeError):
    """Something among processes failed."""


DistBackendError = DistNetworkError = DistStoreError = DistError


def is_available() -> bool:
    return False


def is_initialized() -> bool:
    return False


def is_backend_available(backend: str) -> bool:
    return False


def is_torchelastic_launched() -> bool:
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


is_nccl_available = is_gloo_available = is_mpi_available = is_ucc_available = is_xccl_available = is_initialized


def unavailable(name: str) -> NoReturn:
    """Raise the error for what needs several processes."""
    raise RuntimeError(
        f"torch.distributed.{name} is not provided by mindtorch_v2, which runs in one process; guard the call with "
        "torch.distributed.is_available()"
    )


def init_process_group(*args: Any, **kwargs: Any) -> None:
    unavailable("init_process_group")


def init_device_mesh(*args: Any, **kwargs: Any) -> None:
    unavailable("init_device_mesh")


def _needs_group(name: str) -> Callable[..., Any]:
    def without_group(*args: Any, **kwargs: Any) -> Any:
        raise ValueError(_NO_GROUP)

    without_group.__name__ = without_group.__qualname__ = name
    without_group.__doc__ = "Needs a process group, of which there is none."
    return without_group


_GROUP_FUNCTIONS = """get_rank get_world_size get_backend get_backend_config get_global_rank get_group_rank
    get_process_group_ranks get_node_local_rank barrier monitored_barrier broadcast broadcast_object_list all_reduce
    all_reduce_coalesced reduce all_gather all_gather_object all_gather_into_tensor all_gather_coalesced gather
    gather_object scatter scatter_object_list reduce_scatter reduce_scatter_tensor all_to_all all_to_all_single send
    recv isend irecv send_object_list recv_object_list batch_isend_irecv new_group new_subgroups split_group
    destroy_process_group""".split()
globals().update({_name: _needs_group(_name) for _name in _GROUP_FUNCTIONS})
