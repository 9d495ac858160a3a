"""What events of devices and of communication carry beside times, read from the arguments of a trace."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple, get_args, get_type_hints


class EventMetadata(NamedTuple):
    """What device and communication events carry; all None elsewhere."""

    registers_per_thread: int | None
    shared_memory: int | None
    grid: list[int] | None
    block: list[int] | None
    priority: int | None
    blocks_per_sm: float | None
    warps_per_sm: float | None
    occupancy: dict[str, Any] | None
    est_occupancy_pct: float | None
    queued: int | None
    graph_id: int | None
    graph_node_id: int | None
    stream: int | None
    context: int | None
    channel: int | None
    channel_type: int | None
    bytes: int | None
    bandwidth_gb_s: float | None
    collective_name: str | None
    dtype: str | None
    in_msg_nelems: int | None
    out_msg_nelems: int | None
    in_split_size: str | None
    out_split_size: str | None
    global_rank_start: int | None
    global_rank_stride: int | None
    group_size: int | None
    process_group_name: str | None
    process_group_desc: str | None
    group_ranks: str | None
    rank: int | None
    src_rank: int | None
    dst_rank: int | None
    seq: int | None
    is_async: bool | None


def _unquoted(text: str) -> str:
    return text.strip('"')


# How trace arguments that do not simply have their field's name are called, and how their text is read.
_ARGUMENT_NAMES = {
    "blocks_per_sm": "blocks per SM",
    "warps_per_sm": "warps per SM",
    "est_occupancy_pct": "est. achieved occupancy %",
    "channel_type": "channel_type",
    "bandwidth_gb_s": "memory bandwidth (GB/s)",
    "process_group_name": "Process Group Name",
    "process_group_desc": "Process Group Description",
    "group_ranks": "Process Group Ranks",
    "src_rank": "Src Rank",
    "dst_rank": "Dst Rank",
    "is_async": "Is asynchronized op",
    **{name: name.capitalize().replace("_", " ") for name in (
        "collective_name", "in_msg_nelems", "out_msg_nelems", "in_split_size", "out_split_size",
        "global_rank_start", "global_rank_stride", "group_size", "rank", "seq",
    )},
}  # fmt: skip
_TEXT_READERS: dict[Any, Callable[[str], Any]] = {
    int: int,
    float: float,
    str: _unquoted,
    bool: lambda text: text in ("1", "true"),
    list[int]: json.loads,
    dict[str, Any]: json.loads,
}
_METADATA_READERS = {
    field: (_ARGUMENT_NAMES.get(field, field.replace("_", " ")), _TEXT_READERS[get_args(hint)[0]])
    for field, hint in get_type_hints(EventMetadata).items()
}


def event_metadata(arguments: dict[str, str]) -> EventMetadata | None:
    """Trace arguments as text, sorted into fields; None if none of them belongs to a field."""
    fields: dict[str, Any] = {}
    for field, (name, read) in _METADATA_READERS.items():
        text = arguments.get(name)
        fields[field] = None if text is None else read(text)
    return EventMetadata(**fields) if any(value is not None for value in fields.values()) else None
