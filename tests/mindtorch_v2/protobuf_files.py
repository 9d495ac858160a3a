"""Protocol buffers taken apart, and Perfetto's traces read by the numbers of their published schema."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    place = 0
    while place < len(data):
        key, place = varint(data, place)
        wire = key & 7
        if wire == 0:
            value, place = varint(data, place)
        elif wire == 1:
            value, place = int.from_bytes(data[place : place + 8], "little"), place + 8
        else:
            assert wire == 2
            size, place = varint(data, place)
            value, place = data[place : place + size], place + size
            assert len(value) == size
        yield key >> 3, value


def varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place


def grouped(data: bytes) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = defaultdict(list)
    for number, value in fields(data):
        found[number].append(value)
    return found


def signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


class Perfetto:
    """A .pftrace file: slices as (track, name, start, length, depth), their arguments, flows and counters."""

    def __init__(self, path: Path) -> None:
        self.texts: dict[int, dict[int, str]] = defaultdict(dict)
        self.slices: list[tuple[int, str, int, int, int]] = []
        self.arguments: dict[str, dict[str, Any]] = {}
        self.flows: dict[int, list[str]] = defaultdict(list)
        self.counts: list[tuple[int, int]] = []
        self.instants: list[tuple[str, int]] = []
        self._open: dict[int, list[tuple[str, int]]] = defaultdict(list)
        for number, data in fields(path.read_bytes()):
            assert number == 1
            self._packet(grouped(data))
        assert not any(self._open.values()), "slices that never end"

    def _packet(self, packet: dict[int, list[Any]]) -> None:
        for interned in packet[12]:
            for table, entry in fields(interned):
                inner = grouped(entry)
                self.texts[table][inner[1][0]] = inner[2][0].decode()
        for data in packet[11]:
            event = grouped(data)
            sort, track, time = event[9][0], event[11][0], packet[8][0]
            name = self.texts[2][event[10][0]] if event[10] else ""
            if sort == 1:
                self._open[track].append((name, time))
                self.arguments[name] = self._arguments(event[4])
                for flow in event[47] + event[48]:
                    self.flows[flow].append(name)
            elif sort == 2:
                begun, start = self._open[track].pop()
                self.slices.append((track, begun, start, time - start, len(self._open[track])))
            elif sort == 3:
                self.instants.append((name, time))
            else:
                self.counts.append((time, signed(event[30][0])))

    def _arguments(self, annotations: list[bytes]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for data in annotations:
            entry = grouped(data)
            value = self.texts[29][entry[17][0]] if entry[17] else signed(entry[4][0])
            found[self.texts[3][entry[1][0]]] = value
        return found
