"""A socket in every program that `mindtorch` launches, so that the same user can talk to it. No daemon, no network.

The socket lies in a folder only its owner can enter, and both ends check who the other is. A request and its answer are
one line of JSON each. It does not know what requests mean.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import socket
import stat
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any

from .terminal import UserError

_SUFFIX = ".sock"
# The longest path that a Unix socket can have, everywhere.
_LONGEST_PATH = 100
_LONGEST_LINE = 1 << 16
_PATIENCE_S = 10.0
_LAST_WORDS_S = 0.5


def _folder() -> str:
    """Where the sockets are: the user's runtime folder, else a folder of the user's own for temporary files."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isdir(runtime) and len(runtime) < _LONGEST_PATH - 30:
        return os.path.join(runtime, "mindtorch")
    return os.path.join(tempfile.gettempdir(), f"mindtorch-{os.getuid()}")


def _checked_folder(make: bool) -> str | None:
    """The folder, if it is there and nobody but this user can enter it. Another user may have made it first."""
    folder = _folder()
    if make:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
    try:
        found = os.lstat(folder)
    except FileNotFoundError:
        return None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise UserError(f"{folder} is not a folder of yours alone; remove it, or set XDG_RUNTIME_DIR to one that is")
    return folder


def _is_own_user(connection: socket.socket) -> bool:
    """Whether the process at the other end belongs to this user (where the system tells; else the folder decides)."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    size = struct.calcsize("3i")
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return bool(user == os.getuid())


def _line_from(connection: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        part = connection.recv(_LONGEST_LINE)
        if not part:
            break
        line += part
    return line


# In the program ------------------------------------------------------------------------------------------------------


class _Server:
    """Answers requests on threads of its own until it is closed."""

    def __init__(self, path: str, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self._path = path
        self._answer = answer
        self._pid = os.getpid()
        self._talks: list[threading.Thread] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with contextlib.suppress(FileNotFoundError):
            # Of a program that was killed, whose number is used again.
            os.unlink(path)
        self._socket.bind(path)
        os.chmod(path, 0o600)
        self._socket.listen(4)
        threading.Thread(target=self._serve, daemon=True, name="mindtorch-control").start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._talks = [talk for talk in self._talks if talk.is_alive()]
            talk = threading.Thread(target=self._talk, args=(connection,), daemon=True, name="mindtorch-request")
            self._talks.append(talk)
            talk.start()

    def _talk(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(_PATIENCE_S)
            if not _is_own_user(connection):
                return
            try:
                request = json.loads(_line_from(connection))
                answer = self._answer(request)
            except (RuntimeError, ValueError) as error:
                answer = {"error": str(error)}
            except Exception as error:
                # The program goes on whatever is asked of it; who asked is told.
                answer = {"error": f"{type(error).__name__}: {error}"}
            with contextlib.suppress(OSError):
                connection.sendall(json.dumps(answer).encode() + b"\n")

    def close(self) -> None:
        self._socket.close()
        if os.getpid() == self._pid:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            for talk in self._talks:  # who asked for what has just been done is told so
                talk.join(_LAST_WORDS_S)


@contextlib.contextmanager
def listening(answer: str | Callable[[dict[str, Any]], dict[str, Any]]) -> Iterator[None]:
    """Let requests reach this process meanwhile. `module:function` is loaded when the first one comes."""
    server = _serving(answer) if os.environ.get("MINDTORCH_CONTROL") != "0" and hasattr(socket, "AF_UNIX") else None
    if server is None:
        yield
        return
    os.register_at_fork(after_in_child=server.close)
    try:
        yield
    finally:
        server.close()


def _serving(answer: str | Callable[[dict[str, Any]], dict[str, Any]]) -> _Server | None:
    """A server, or None where there cannot be one: a program runs without it all the same."""
    try:
        folder = _checked_folder(make=True)
        if folder is None:
            return None
        return _Server(os.path.join(folder, f"{os.getpid()}{_SUFFIX}"), _loaded(answer))
    except (OSError, UserError):
        return None


def _loaded(answer: str | Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    if callable(answer):
        return answer
    module, _, name = answer.partition(":")

    def load_and_answer(request: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = getattr(importlib.import_module(module), name)(request)
        return found

    return load_and_answer


# In the command ------------------------------------------------------------------------------------------------------


def programs() -> list[int]:
    """The processes that can be talked to, newest first."""
    folder = _checked_folder(make=False)
    if folder is None:
        return []
    names = [name for name in os.listdir(folder) if name.endswith(_SUFFIX) and name[: -len(_SUFFIX)].isdecimal()]
    names.sort(key=lambda name: os.lstat(os.path.join(folder, name)).st_mtime, reverse=True)
    return [int(name[: -len(_SUFFIX)]) for name in names if _runs(int(name[: -len(_SUFFIX)]))]


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return False
    return True


def request(pid: int, what: dict[str, Any], wait_s: float = _PATIENCE_S) -> dict[str, Any]:
    """Ask a program for something."""
    remedy = "start it with `mindtorch run` or `mindtorch profile`, as the same user"
    folder = _checked_folder(make=False)
    path = os.path.join(folder, f"{pid}{_SUFFIX}") if folder is not None else ""
    if not path or not os.path.exists(path):
        raise UserError(f"process {pid} cannot be reached; {remedy}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(wait_s)
        try:
            connection.connect(path)
            if not _is_own_user(connection):
                raise UserError(f"process {pid} belongs to another user; {remedy}")
            connection.sendall(json.dumps(what).encode() + b"\n")
            line = _line_from(connection)
        except (ConnectionError, FileNotFoundError) as error:
            raise UserError(f"process {pid} has ended; {remedy}") from error
        except TimeoutError as error:
            raise UserError(f"process {pid} does not answer; is it stopped or busy in one long call?") from error
    if not line:
        raise UserError(f"process {pid} has ended; {remedy}")
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        raise UserError(f"process {pid}: {answer['error']}")
    return answer
