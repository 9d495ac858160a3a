"""Files that are written whole or not at all: every export, whatever fails, and paths that are no plain files."""

import errno
import os
import stat
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.core import files
from mindtorch_v2.core.files import Descriptor, replaced, write_text
from mindtorch_v2.profiler import ExecutionTraceObserver, profile, record_function
from mindtorch_v2.profiler.export import FORMATS

try:
    import pyarrow  # noqa: F401

    SUFFIXES = sorted(FORMATS)
except ImportError:
    SUFFIXES = sorted(set(FORMATS) - {".parquet"})


@pytest.fixture(scope="module")
def prof() -> profile:
    model = torch.nn.Linear(4, 3)
    for _ in range(2):  # once to have all functions compiled
        with profile(record_shapes=True, with_stack=True, profile_memory=True) as made, record_function("region"):
            model(torch.ones(2, 4)).sum().backward()
    return made


def timeline(prof: profile, path: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        prof.export_memory_timeline(path)


Write = Callable[[profile, str], object]
EXPORTS: dict[str, Write] = {suffix: lambda prof, path: prof.export(path) for suffix in SUFFIXES}
EXPORTS |= {
    ".html": lambda prof, path: prof.export_report(path),
    ".stacks": lambda prof, path: prof.export_stacks(path),
    ".timeline.html": timeline,
    ".timeline.json": timeline,
    ".raw.json.gz": timeline,
    ".events.csv": lambda prof, path: prof.key_averages().to_csv(path),
    ".events.json": lambda prof, path: prof.events().to_json(path),
    ".array.json": lambda prof, path: prof.events().export_chrome_trace(path),
    ".pt": lambda prof, path: torch.save({"a": torch.ones(300)}, path),
    ".old.pt": lambda prof, path: torch.save(torch.ones(300), path, _use_new_zipfile_serialization=False),
}


class Faults:
    """Fails the n-th thing that is done to a file."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        self.failing = 0
        self.number = 0
        monkeypatch.setattr(files, "_BUFFER", 256)
        real_replace = os.replace
        faults = self

        class Disk(FileIO):
            """Stands under the files that are written."""

            def write(self, data: Any) -> int:
                is_short = faults.happens()
                return super().write(data[: len(data) // 2 + 1] if is_short else data)

            def close(self) -> None:
                was_open = not self.closed
                super().close()
                if was_open:
                    faults.happens()

        def replace(source: str, target: str) -> None:
            faults.happens()
            real_replace(source, target)

        files._Named.__bases__ = (Disk,)
        monkeypatch.setattr(files.os, "replace", replace)

    def happens(self) -> bool:
        """One more thing is done to a file; whether it is to be done in part. It fails if its turn has come."""
        self.calls += 1
        if self.calls == self.failing and self.number:
            raise OSError(self.number, os.strerror(self.number))
        return self.calls == self.failing

    def fail(self, call: int, number: int) -> None:
        self.calls, self.failing, self.number = 0, call, number


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Iterator[Faults]:
    yield Faults(monkeypatch)
    files._Named.__bases__ = (FileIO,)


@pytest.mark.parametrize("suffix", EXPORTS)
def test_an_export_that_fails_leaves_the_old_file_and_no_other(
    prof: profile, faults: Faults, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"out{suffix}"
    faults.fail(0, 0)
    EXPORTS[suffix](prof, str(path))
    calls, size = faults.calls, path.stat().st_size
    assert calls >= 2
    path.write_bytes(b"old")
    some = sorted({*range(1, min(calls, 12) + 1), calls // 2, calls - 1, calls})
    for number in (errno.ENOSPC, errno.EIO, errno.EDQUOT):
        for call in some:
            faults.fail(call, number)
            with pytest.raises(OSError, match="Errno") as caught:
                EXPORTS[suffix](prof, str(path))
            assert (caught.value.errno, caught.value.filename) == (number, str(path))
            assert path.read_bytes() == b"old"
            assert os.listdir(tmp_path) == [path.name]
    # A write that takes only a part is no failure.
    faults.fail(1, 0)
    EXPORTS[suffix](prof, str(path))
    assert abs(path.stat().st_size - size) < 100
    assert os.listdir(tmp_path) == [path.name]


def test_an_error_names_the_path_that_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, replaced(tmp_path / "none" / "out"):
        pass
    assert caught.value.filename == str(tmp_path / "none" / "out")
    with pytest.raises(IsADirectoryError), replaced(tmp_path):
        pass
    assert os.listdir(tmp_path) == []


def test_an_exception_of_the_writer_leaves_the_old_file(tmp_path: Path) -> None:
    def write() -> None:
        with replaced(path) as file:
            file.write(b"half")
            raise KeyError

    path = tmp_path / "out"
    path.write_text("old")
    with pytest.raises(KeyError):
        write()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "real").write_text("old")
    (tmp_path / "link").symlink_to(Path("folder") / "real")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "folder" / "real").read_text() == "new"


def test_a_file_keeps_its_mode_and_its_other_names(tmp_path: Path) -> None:
    path, other = tmp_path / "out", tmp_path / "other"
    path.write_text("old")
    path.chmod(0o640)
    write_text(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    other.hardlink_to(path)
    write_text(path, "newer")
    assert other.read_text() == "newer"


def test_whoever_has_an_empty_file_open_finds_the_content_in_it() -> None:
    with tempfile.NamedTemporaryFile() as file:
        torch.save(torch.ones(3), file.name)
        assert torch.load(file).tolist() == [1, 1, 1]


@pytest.mark.parametrize("is_hard_link", [True, False])
def test_a_folder_that_takes_no_new_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faults: Faults, is_hard_link: bool
) -> None:
    path = tmp_path / "out"
    path.write_text("old and long " * 100)
    if is_hard_link:
        (tmp_path / "other").hardlink_to(path)
    else:
        real = os.open

        def refuse(name: str, flags: int, *rest: int) -> int:
            if flags & os.O_CREAT and os.path.dirname(name) == str(tmp_path):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
            return real(name, flags, *rest)

        monkeypatch.setattr(files.os, "open", refuse)
    before = path.read_bytes()
    faults.fail(0, 0)
    write_text(path, "x" * 2000)
    assert path.read_text() == "x" * 2000
    calls = faults.calls
    path.write_bytes(before)
    failures = 0
    for call in range(1, calls + 1):
        faults.fail(call, errno.ENOSPC)
        try:
            write_text(path, "x" * 2000)
        except OSError:
            failures += 1
            assert path.read_bytes() == before
        path.write_bytes(before)
    assert failures >= calls - 1


def test_a_file_that_nothing_may_take_the_place_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: str, target: str) -> None:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), source)

    path = tmp_path / "out"
    path.write_text("old and long")
    monkeypatch.setattr(files.os, "replace", refuse)
    write_text(path, "new")
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    path, found = tmp_path / "pipe", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: found.append(path.read_bytes()))
    reader.start()
    write_text(path, "through")
    reader.join()
    assert found == [b"through"]
    assert stat.S_ISFIFO(path.stat().st_mode)


@pytest.mark.skipif(not os.path.exists("/dev/stdout"), reason="needs /dev/stdout")
def test_what_the_program_prints_goes_on_behind_an_export_to_stdout(tmp_path: Path) -> None:
    program = "from mindtorch_v2.core.files import write_text; write_text('/dev/stdout', 'export\\n'); print('printed')"
    with (tmp_path / "out").open("wb") as out:
        subprocess.run([sys.executable, "-c", program], stdout=out, check=True)
        inode = os.fstat(out.fileno()).st_ino
    # As with any program that opens /dev/stdout, whose place in the file is another than that of its prints.
    assert (tmp_path / "out").stat().st_ino == inode
    assert b"printed" in (tmp_path / "out").read_bytes()


def test_an_execution_trace_that_cannot_be_written_does_not_disturb_the_program(tmp_path: Path, faults: Faults) -> None:
    path = tmp_path / "trace.json"
    path.write_text("old")

    def run() -> None:
        observer = ExecutionTraceObserver().register_callback(str(path))
        observer.start()
        assert (torch.ones(2) + 1).tolist() == [2, 2]
        observer.stop()
        observer.unregister_callback()

    faults.fail(0, 0)
    run()
    calls = faults.calls
    for call in range(1, calls + 1):
        path.write_text("old")
        faults.fail(call, errno.ENOSPC)
        with pytest.warns(UserWarning, match="the execution trace cannot be written"):
            run()
        assert path.read_text() == "old"
        assert os.listdir(tmp_path) == ["trace.json"]


def test_a_descriptor_that_somebody_closed_is_not_closed_again(tmp_path: Path) -> None:
    (tmp_path / "one").touch()
    (tmp_path / "two").touch()
    mine = Descriptor(os.open(tmp_path / "one", os.O_RDONLY))
    assert mine.state() is not None
    os.close(mine.number)
    assert mine.state() is None
    other = os.open(tmp_path / "two", os.O_RDONLY)
    assert other == mine.number
    mine.close()
    assert os.fstat(other)
    os.close(other)
