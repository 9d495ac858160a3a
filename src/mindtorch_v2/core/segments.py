"""Memory that several processes map: segments of shared memory, and files.

It knows bytes and descriptors, and nothing of tensors. A segment made with the strategy `file_descriptor` has no name
anywhere, so nothing can be left behind; one made with `file_system` has names (`links`) and needs no descriptor.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import sys
import threading
import weakref
from typing import Any

import numpy as np

from . import links
from .fork import free_in_children

POSIX = sys.platform != "win32"
STRATEGIES = frozenset(("file_system",) if sys.platform in ("win32", "darwin") else ("file_descriptor", "file_system"))
_chosen = ["file_descriptor" if "file_descriptor" in STRATEGIES else "file_system"]
_PIECE = 1 << 26  # bytes taken at once: after a signal the kernel starts over with what it was asked for
_LARGE = 1 << 28  # bytes from which on it is looked up whether the machine has that much
MORE_FILES = (
    "; with the strategy 'file_descriptor' each tensor in shared memory keeps a file open: raise the limit (ulimit -n), "
    "let go of tensors, or call torch.multiprocessing.set_sharing_strategy('file_system')"
)
_MORE_MEMORY = "; make it larger (docker run --shm-size=…, mount -o remount,size=… /dev/shm), or share smaller tensors"


def strategy() -> str:
    """How segments that are made from now on travel."""
    return _chosen[0]


def set_strategy(name: str) -> None:
    if name not in STRATEGIES:
        raise AssertionError(f"invalid sharing strategy {name!r}, expected one of {set(STRATEGIES)}")
    _chosen[0] = name


def failed(what: str, error: OSError, remedy: str = "") -> RuntimeError:
    """The error torch raises where the system refuses."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        remedy = MORE_FILES
    return RuntimeError(f"{what}: {os.strerror(error.errno or 0)} ({error.errno}){remedy}")


# --- blocks and segments ----------------------------------------------------------------------------------------------


def _library() -> Any:
    """C's `mmap` and `munmap`. Python's own mmap would keep a second descriptor open for each mapping."""
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return library


_C = _library() if POSIX else None
_NOWHERE = 64  # the address of no bytes


class Block:
    """Bytes at an address that are not NumPy's to free. It keeps what they belong to, and arrays on them keep it."""

    __slots__ = ("address", "nbytes", "keeper", "__weakref__")

    def __init__(self, address: int, nbytes: int, keeper: Any = None) -> None:
        self.address, self.nbytes, self.keeper = address, nbytes, keeper

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"shape": (self.nbytes,), "typestr": "|u1", "data": (self.address, False), "version": 3}


def apart(a: Any) -> Any:
    """An array as it is, on memory that ends where its own elements do: what else its owner has is none of a tensor's."""
    low, high = bounds(a)
    block = np.asarray(Block(low, high - low, a))
    made: Any = np.ndarray(a.shape, a.dtype, block, a.__array_interface__["data"][0] - low, a.strides)
    made.flags.writeable = a.flags.writeable
    return made


def bounds(a: Any) -> tuple[int, int]:
    """Where the bytes of an array begin and end."""
    low = high = a.__array_interface__["data"][0]
    if a.size == 0:
        return low, low
    for n, step in zip(a.shape, a.strides, strict=True):
        low, high = (low, high + (n - 1) * step) if step > 0 else (low + (n - 1) * step, high)
    return low, high + a.itemsize


class Segment(Block):
    """A mapping. It travels by `fd` or by `path`; without both it is empty, or `private`: other processes do not see it.

    `filename` is the file a user named, `file` its device and inode; `token` belongs to whoever puts tensors on it.
    """

    __slots__ = ("fd", "path", "pid", "filename", "file", "private", "token", "_array", "_tools")

    def __init__(self, address: int, nbytes: int, private: bool = False, keeper: Any = None) -> None:
        """Take a mapping over; with a keeper it is the keeper's to end."""
        super().__init__(address, nbytes, keeper)
        self.fd, self.private, self.pid = -1, private, os.getpid()
        self.path: str | None = None
        self.filename: str | None = None
        self.file: tuple[int, int] | None = None
        self.token: Any = None
        self._array: Any = None
        # At the end of the interpreter modules are emptied before the last segments go.
        self._tools: Any = None if _C is None else (_C.munmap, os.close, links.drop)

    def array(self) -> Any:
        """The bytes as an array, always the same one while somebody holds it."""
        found = None if self._array is None else self._array()
        if found is None:
            found = np.asarray(self)
            self._array = weakref.ref(found)
        return found

    def __reduce__(self) -> Any:
        raise TypeError("shared memory can be sent through queues, pipes and arguments of processes only")

    def __del__(self) -> None:
        if self.nbytes and self.keeper is None:
            unmap, close, drop = self._tools
            unmap(self.address, self.nbytes)
            if self.fd >= 0:
                close(self.fd)
            if self.path is not None:
                drop(self.path, self.pid)


def _map(fd: int, nbytes: int, what: str, private: bool = False) -> Segment:
    """A mapping of the first bytes of an open file, which stays the caller's to close."""
    if _C is None:
        raise RuntimeError(
            f"{what}: memory is shared between processes by POSIX mmap, which {sys.platform} does not have; leave "
            "share_memory_() out: queues, pipes and arguments of processes copy tensors here"
        )
    kind = mmap.MAP_PRIVATE if private else mmap.MAP_SHARED
    found = _C.mmap(None, ctypes.c_size_t(nbytes).value, mmap.PROT_READ | mmap.PROT_WRITE, kind, fd, 0)
    if found in (None, ctypes.c_void_p(-1).value):
        code = ctypes.get_errno()
        raise RuntimeError(f"unable to mmap {nbytes} bytes from file <{what}>: {os.strerror(code)} ({code})")
    return Segment(found, nbytes, private)


def _no_bytes() -> Segment:
    return Segment(_NOWHERE, 0)


def segment_of(owner: Any) -> Segment | None:
    """The segment that an array owning its memory lies on, if it does."""
    base = owner.base
    return base if type(base) is Segment else None


# Segments of this process by device and inode: what comes back from another process is the same memory once more.
_known: weakref.WeakValueDictionary[tuple[int, int], Segment] = weakref.WeakValueDictionary()
_lock = free_in_children(threading.Lock())


def _remembered(fd: int, made: Segment) -> Segment:
    status = os.fstat(fd)
    with _lock:
        _known[status.st_dev, status.st_ino] = made
    return made


def _find(fd: int) -> Segment | None:
    status = os.fstat(fd)
    with _lock:
        return _known.get((status.st_dev, status.st_ino))


# --- making -----------------------------------------------------------------------------------------------------------


def create(nbytes: int) -> Segment:
    """Fresh shared memory, zeros."""
    if not nbytes:
        return _no_bytes()
    if not POSIX:
        return _map(-1, nbytes, "shared memory")  # says why not
    try:
        path, fd = links.create() if strategy() == "file_system" else (None, _nameless())
    except OSError as error:
        name = f"/torch_{os.getpid()}"
        raise failed(f"unable to open shared memory object <{name}> in read-write mode", error) from None
    try:
        _reserve(fd, nbytes, path)
        made = _remembered(fd, _map(fd, nbytes, path or "shared memory"))
    except BaseException:
        os.close(fd)
        if path is not None:
            links.drop(path, os.getpid())
        raise
    if path is None:
        made.fd = fd
    else:
        os.close(fd)
        made.path = path
    return made


def _nameless() -> int:
    """A descriptor of memory without a name, or of a file that has lost its own."""
    if hasattr(os, "memfd_create"):
        try:
            return os.memfd_create(f"torch_{os.getpid()}", os.MFD_CLOEXEC)
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.EPERM, errno.EACCES):
                raise
    path, fd = links.create()
    links.drop(path, os.getpid())
    return fd


def _reserve(fd: int, nbytes: int, path: str | None) -> None:
    """Have the memory taken now: where it is missing later, the process would die of SIGBUS."""
    what = f"unable to allocate {nbytes} bytes of shared memory(shm) for file <{path or f'/torch_{os.getpid()}'}>"
    try:
        if path is None and nbytes >= _LARGE and nbytes > _free_memory():
            raise OSError(errno.ENOMEM, "")  # the kernel would begin to kill processes
        os.ftruncate(fd, nbytes)
        if hasattr(os, "posix_fallocate"):
            for start in range(0, nbytes, _PIECE):
                os.posix_fallocate(fd, start, min(_PIECE, nbytes - start))
    except OSError as error:
        raise failed(what, error, _MORE_MEMORY if path else "; let go of tensors, or share smaller ones") from None


def _free_memory() -> float:
    """Bytes that the system can give out, as far as it tells."""
    try:
        with open("/proc/meminfo") as lines:
            sizes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
        return 1024.0 * (sizes["MemAvailable"] + sizes["SwapFree"])
    except (OSError, KeyError, ValueError, IndexError):
        return float("inf")


# --- travelling -------------------------------------------------------------------------------------------------------


def duplicate(fd: int) -> int:
    """One more descriptor of the same file."""
    try:
        return os.dup(fd)
    except OSError as error:
        raise failed(f"unable to duplicate descriptor {fd}", error) from None


def attach_descriptor(fd: int, nbytes: int) -> Segment:
    """The segment of a descriptor that came from another process, and is taken over."""
    known = _find(fd)
    if known is not None:
        if known.fd != fd:
            os.close(fd)
        return known
    try:
        made = _map(fd, nbytes, "shared memory")
    except BaseException:
        os.close(fd)
        raise
    made.fd = fd
    return _remembered(fd, made)


def send_name(segment: Segment) -> str:
    """A name for whoever is to receive a segment; it is theirs to remove."""
    assert segment.path is not None
    try:
        return links.link(segment.path)
    except FileNotFoundError:
        raise RuntimeError(
            f"unable to send shared memory <{segment.path}>: the process that made it has let go of it; keep the tensor "
            "there while forked processes send it on, or use the strategy 'file_descriptor'"
        ) from None


def attach_name(path: str, nbytes: int) -> Segment:
    """The segment of a name that came from another process, and is taken over."""
    try:
        fd = os.open(path, os.O_RDWR)
    except OSError as error:
        remedy = "; the processes that knew it have ended before it was received" if error.errno == errno.ENOENT else ""
        raise failed(f"unable to open shared memory object <{path}> in read-write mode", error, remedy) from None
    try:
        known = _find(fd)
        if known is None:
            known = _map(fd, nbytes, path)
            known.path = links.keep(links.link(path))
            _remembered(fd, known)
        os.unlink(path)
        return known
    finally:
        os.close(fd)


# --- files ------------------------------------------------------------------------------------------------------------


def map_file(filename: str, shared: bool, nbytes: int) -> Segment:
    """The first bytes of a file. If it is shared, changes go to the file, which is made longer where it is too short."""
    if nbytes == 0:
        empty = _no_bytes()
        empty.filename = filename if shared else None
        return empty
    mode = "read-write" if shared else "read-only"
    try:
        fd = os.open(filename, os.O_RDWR | os.O_CREAT if shared else os.O_RDONLY, 0o600)
    except OSError as error:
        raise failed(f"unable to open file <{filename}> in {mode} mode", error) from None
    try:
        status = os.fstat(fd)
        size = status.st_size
        if nbytes > size and not shared:
            raise RuntimeError(f"file <{filename}> size <{size}> is smaller than the required mapping size <{nbytes}>")
        if nbytes > size:
            _lengthen(fd, size, nbytes, filename)
        if _C is None:
            keeper: Any = np.memmap(filename, np.uint8, "r+" if shared else "c", shape=(nbytes,))
            return Segment(keeper.__array_interface__["data"][0], nbytes, not shared, keeper)
        made = _map(fd, nbytes, filename, private=not shared)
        if shared:
            made.filename, made.file = filename, (status.st_dev, status.st_ino)
        return made
    finally:
        os.close(fd)


def _lengthen(fd: int, size: int, nbytes: int, filename: str) -> None:
    """Have the disk give the space now: writing to mapped memory has no way to say that there is none."""
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, size, nbytes - size)
        else:
            os.ftruncate(fd, nbytes)
    except OSError as error:
        os.ftruncate(fd, size)
        raise failed(f"unable to resize file <{filename}> to the right size of {nbytes} bytes", error) from None


def descriptor(segment: Segment) -> int:
    """An open descriptor of a segment that travels by one. Of files none is kept before it is asked for."""
    if segment.fd < 0 and segment.file is not None:
        assert segment.filename is not None
        try:
            fd = os.open(segment.filename, os.O_RDWR)
        except OSError as error:
            raise failed(f"unable to open file <{segment.filename}> in read-write mode", error) from None
        status = os.fstat(fd)
        if (status.st_dev, status.st_ino) != segment.file:
            os.close(fd)
            raise RuntimeError(
                f"file <{segment.filename}> is another one than was mapped; send the tensor before the file is replaced"
            )
        segment.fd = fd
    return segment.fd
