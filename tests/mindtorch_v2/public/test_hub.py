"""torch.hub: hashes of checkpoints are checked, and files are copied."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import hub


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """A checkpoint that has its hash in its name."""
    path = tmp_path / "weights.pth"
    torch.save({"w": torch.ones(2)}, path)
    return path.rename(tmp_path / f"weights-{hashlib.sha256(path.read_bytes()).hexdigest()[:8]}.pth")


def test_a_cached_file_is_to_have_its_hash(weights: Path) -> None:
    url, folder = f"https://example.invalid/{weights.name}", str(weights.parent)
    assert hub.load_state_dict_from_url(url, folder, check_hash=True)["w"].tolist() == [1, 1]
    with weights.open("ab") as file:
        file.write(b"more")
    with pytest.raises(RuntimeError, match=f'invalid hash value \\(expected "{weights.stem[-8:]}", got "'):
        hub.load_state_dict_from_url(url, folder, check_hash=True)


def test_files_are_copied_if_their_hash_is_right(weights: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.pth"
    with pytest.raises(RuntimeError, match='invalid hash value \\(expected "0000"'):
        hub.download_url_to_file(weights.as_uri(), str(copy), "0000", progress=False)
    assert not copy.exists()
    hub.download_url_to_file(weights.as_uri(), str(copy), weights.stem[-8:])
    assert copy.read_bytes() == weights.read_bytes()


def test_a_file_is_loaded_by_way_of_the_cache(weights: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    assert hub.load_state_dict_from_url(weights.as_uri(), str(folder), check_hash=True)["w"].tolist() == [1, 1]
    assert (folder / weights.name).exists()
    wrong = weights.rename(tmp_path / "other-00000000.pth")
    with pytest.raises(RuntimeError, match="invalid hash value"):
        hub.load_state_dict_from_url(wrong.as_uri(), str(folder), check_hash=True)


def test_nothing_is_downloaded(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="mindtorch_v2 downloads nothing"):
        hub.download_url_to_file("https://example.invalid/x.pth", str(tmp_path / "x.pth"), "ab")
