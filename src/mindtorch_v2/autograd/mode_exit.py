"""How context managers that switch modes are left: completely, also where an interrupt comes as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core import tap


def leaving(restore: Callable[[Any], None], after: Callable[[Any], None] | None = None) -> Any:
    """The method `__exit__` of a context manager: `restore(self)`, then `after(self)`.

    Python interrupts programs (Ctrl-C raises KeyboardInterrupt) as functions begin and after calls. So `restore` either
    begins with what it has to do and calls nothing, or may be run twice: where an error ends it, it is run once more before
    the error goes on. `after` may be lost. A function in Python may be interrupted before its first line, one in C is not:
    the compiled helper has the same method.
    """
    if tap.HELPER is not None:
        return tap.HELPER.leaving(restore, after)

    def __exit__(self: Any, kind: object = None, error: object = None, traceback: object = None) -> None:
        # Three names, as `*exc` would ask for the memory of a tuple.
        try:
            restore(self)
        except BaseException:
            restore(self)
            raise
        finally:
            if after is not None:
                after(self)

    return __exit__
