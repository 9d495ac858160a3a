"""torch.hub without a network: files that are there already can be loaded or copied, nothing is fetched."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn
from urllib.parse import urlparse
from urllib.request import url2pathname

from .serialization.reading import load as _load_file


class tqdm:
    """Stands for a bar of progress where that package is not installed, as torch's own stand-in does."""

    def __init__(self, total: int | None = None, disable: bool = False, **options: Any) -> None:
        self.total, self.disable, self.n = total, disable, 0

    def update(self, n: int) -> None:
        self.n += n

    def close(self) -> None:
        """Nothing was shown."""

    def __enter__(self) -> tqdm:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


# The piece of a file's name that says its hash: resnet18-bfd8deac.pth.
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
READ_DATA_CHUNK = 128 * 1024
_chosen: list[str] = []


def _get_torch_home() -> str:
    """The folder of torch's caches; libraries ask for it under this name."""
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch")))


def get_dir() -> str:
    """Where downloaded models would lie."""
    return _chosen[0] if _chosen else os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    _chosen[:] = [os.path.expanduser(d)]


def _offline(what: str, remedy: str) -> NoReturn:
    raise RuntimeError(f"mindtorch_v2 downloads nothing: {what} is not on this machine. {remedy}")


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> Any:
    """Load the checkpoint of a URL from the cache folder, where another program must have put it unless the URL is that
    of a file. With `check_hash` the file is loaded only if it has the hash in its name, however it came there."""
    folder = model_dir if model_dir is not None else os.path.join(get_dir(), "checkpoints")
    path = os.path.join(folder, file_name or os.path.basename(urlparse(url).path))
    named = HASH_REGEX.search(os.path.basename(path)) if check_hash else None
    wanted = named.group(1) if named else None
    if not os.path.exists(path):
        if urlparse(url).scheme != "file":
            _offline(url, f"Download it yourself to {path}, or torch.load a file you have.")
        os.makedirs(folder, exist_ok=True)
        download_url_to_file(url, path, wanted, progress=progress)
    elif wanted:
        _check_hash(path, wanted)
    return _load_file(path, map_location=map_location, weights_only=weights_only)


def _check_hash(path: str, wanted: str) -> None:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(READ_DATA_CHUNK):
            digest.update(chunk)
    found = digest.hexdigest()
    if not found.startswith(wanted):
        raise RuntimeError(f'invalid hash value (expected "{wanted}", got "{found}") of {path}')


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Copy the file of a `file:` URL, if its SHA-256 begins with `hash_prefix`; no bar of progress is shown."""
    parts = urlparse(url)
    if parts.scheme != "file":
        _offline(url, f"Download it yourself to {dst}.")
    source, dst = url2pathname(parts.path), os.path.expanduser(dst)
    if hash_prefix is not None:
        _check_hash(source, hash_prefix)
    shutil.copyfile(source, dst)


def _local_conf(repo: str, source: str) -> ModuleType:
    path = Path(repo) / "hubconf.py"
    if source != "local" or not path.exists():
        _offline(repo, "Clone the repository yourself and pass its folder with source='local'.")
    sys.path.insert(0, str(repo))
    try:
        spec = importlib.util.spec_from_file_location("hubconf", path)
        if spec is None or spec.loader is None:
            raise RuntimeError(f"{path} cannot be imported")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(repo))
    return module


def load(repo_or_dir: str, model: str, *args: Any, source: str = "github", **kwargs: Any) -> Any:
    """Call an entry point of a local folder's hubconf.py."""
    for option in ("trust_repo", "force_reload", "verbose", "skip_validation"):
        kwargs.pop(option, None)
    conf = _local_conf(repo_or_dir, source)
    if not callable(getattr(conf, model, None)):
        raise RuntimeError(f"Cannot find callable {model} in hubconf")
    return getattr(conf, model)(*args, **kwargs)


def list(github: str, *args: Any, source: str = "github", **kwargs: Any) -> Any:
    """Entry points of a local folder's hubconf.py."""
    conf = _local_conf(github, source)
    return [name for name in dir(conf) if callable(getattr(conf, name)) and not name.startswith("_")]


def help(github: str, model: str, *args: Any, source: str = "github", **kwargs: Any) -> str | None:
    """The docstring of an entry point."""
    doc: str | None = getattr(_local_conf(github, source), model).__doc__
    return doc
