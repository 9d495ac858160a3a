"""An object that remembers whatever is set on it, for configurations of parts that are not there."""

from __future__ import annotations

from typing import Any


class Settings:
    """Attributes may be set and read back; one never set reads as another Settings, which is false."""

    def __init__(self, path: str) -> None:
        self.__dict__["_path"] = path

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_path":
            raise AttributeError(name)
        found = self.__dict__[name] = Settings(f"{self._path}.{name}")
        return found

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<settings of {self._path}, which mindtorch_v2 does not use>"

    def patch(self, *args: Any, **changes: Any) -> Any:
        """A decorator and context manager that changes nothing."""
        return _Nothing()


class _Nothing:
    """Does nothing around a function or a block."""

    def __call__(self, function: Any) -> Any:
        return function

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        pass
