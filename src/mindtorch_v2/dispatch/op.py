"""The row of an operator, and what it is made from.

A row is a schema line, a kernel on NumPy arrays, and a gradient formula per input. From it follow the public function
(`functions`, written by `forward`), the slow path (`slow_path`), `out=` and the in-place form (`inplace`), the autograd
node and the event of the profiler. Rows live in `ops`; names reach users through `public`.
"""

from __future__ import annotations

import inspect
import linecache
import re
import sys
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from ..core import tap
from ..core.meta import Rule
from ..kernels import result_layout
from . import codegen, namespace
from . import schema as _schema
from .fast_parts import ALL_KINDS
from .functions import OPS as OPS
from .functions import not_yet, stub
from .inputs import describe_inputs
from .schema import Argument

EVENTS = tap.EVENTS
AUTOCAST_CLASSES = (None, "lower_precision", "float32", "promote")
_SELF = re.compile(r"\s*Tensor(\([^)]*\))? self\b")


def _layout(args: Any, rule: str | None, kind: str, text: str, has_numbers: bool) -> Any:
    """The rule of a row's results."""
    if args is not None:
        return None if args is result_layout.as_made else args
    if rule is not None:
        return result_layout.with_number if has_numbers else result_layout.elementwise
    return result_layout.plain if kind == "kernel" and "Tensor" in text.partition("->")[0] else None


class Op:
    """One row and everything derived from it."""

    def __init__(
        self,
        schema: str,
        kernel: Callable[..., Any] | None,
        *,
        kind: str = "kernel",  # kernel, view, mutate, composite, value
        rule: str | None = None,  # elementwise ops: same, float, compare
        ufunc: Callable[..., Any] | None = None,
        formulas: dict[str, Callable[..., Any]] | None = None,
        calls: Callable[..., Any] | None = None,
        # The op that `calls` comes to on plain tensors, as source of arguments: its event is then put around the kernel.
        inner: tuple[Op, tuple[str, ...]] | None = None,
        # Or the op that it runs on plain tensors ahead of the kernel, with arguments and when, as source.
        ahead: tuple[Op, tuple[str, ...], str] | None = None,
        node: str | None = None,
        flops: Callable[..., int] | None = None,  # torch's column, from recorded inputs
        # All operations, from recorded inputs. An event has one formula, which one of its overloads states.
        all_flops: Callable[..., int] | None = None,
        # Results on the meta device, from the kernel and its arguments. Elementwise rows, views and bodies need none.
        meta: Rule | None = None,
        autocast: str | None = None,  # how autocast gives it its inputs: lower_precision, float32, promote
        fast_when: dict[str, Any] | None = None,
        number_fast: bool = True,
        quiet: bool = True,  # compute with floating point flags ignored; False where inf and nan are rare results
        spread: bool = True,  # whether the only list of ints may be given as several ints
        # Its first argument is laid out in memory first, unless it is in order or this says so of its array.
        dense: bool | Callable[[Any], bool] = False,
        fast: tuple[str, Callable[..., Any]] | None = None,  # a condition in generated code, and the kernel for it
        # A compiled function before the kernel, None from which leaves it to that.
        asked: Callable[..., Any] | None = None,
        # How results lie in memory where an argument is not in row-major order: by TensorIterator's rule if the op is
        # elementwise, else in row-major order themselves, unless said otherwise; `result_layout.as_made` leaves it to the kernel.
        layout: Callable[..., Any] | None = None,
        takes: str = ALL_KINDS,
        label: str | None = None,
        check: Callable[..., None] | None = None,
        promotes: tuple[str, ...] = (),
        widen: bool = True,
        scalar: str | None = None,
        method: bool = True,
        nondiff: tuple[int, ...] = (),
        replay: Callable[..., Any] | None = None,
        out: bool | str | None = None,  # "apart": out= shares no memory with inputs; "exact": nor differs in dtype
        # With `out=` of another dtype, which is refused unless the op is elementwise: "compute" in that one, or "cast" to it.
        out_dtype: str | None = None,
        out_overload: str | None = None,  # torch's name of the one with `out=`, where this one's does not tell
        base: Op | None = None,
        event: str | None = None,
    ) -> None:
        head, _, rest = schema.partition("(")
        self.text, self.qualified = schema, head.strip()
        self.name, _, self.overload = self.qualified.partition(".")
        # Whether the op can be a method: its first argument is the tensor itself.
        self.takes_self = _SELF.match(rest) is not None
        self.layout = _layout(layout, rule, kind, rest, bool(promotes))
        # A ufunc gets its layout where it is called: functions are written by what it is.
        self.kernel = kernel if isinstance(kernel, np.ufunc) else result_layout.laid(kernel, self.layout)
        self.kind, self.rule, self.ufunc, self.calls, self.base = kind, rule, ufunc, calls, base
        self.inner, self.ahead, self.dense = inner, ahead, dense
        self.ident = self.qualified.replace(".", "__")
        self.python_name = self.name
        self.fast_when, self.number_fast = fast_when or {}, number_fast
        self.fast = None if fast is None else (fast[0], result_layout.laid(fast[1], self.layout))
        self.asked, self.spread, self.quiet = result_layout.laid(asked, self.layout), spread, quiet
        self.quickly: Callable[..., Any] | None = None  # the cases of both, as a function; made when first needed
        self.takes, self.check, self.promotes, self.method = takes, check, promotes, method
        self.widen = widen and rule != "compare"  # 16-bit floats are computed in float32
        self.label = label or f"{self.name.removeprefix('special_')}_cpu"  # the kernel's name in messages
        self.fixed: dict[str, Any] | None = None  # operators: the arguments that keep their default
        self.seen = True  # False for the form of its function that offers a call to nobody
        self.unseen: Callable[..., Any] = not_yet(self)
        self.records = True  # False for operators that stand for several ops, which record themselves
        self.nondiff, self.replay, self.autocast, self.meta = nondiff, replay, autocast, meta
        self.out_dtype, self.out_overload = out_dtype, out_overload
        self._file = _caller()
        self.formulas = formulas or {}
        self.differentiable = [name for names in self.formulas for name in names.split()]
        self.node_name = node or _node_name(self.name if base is None else base.name)
        self.make_node: Any = None
        self.function = stub(self.qualified, self.name)
        self.public: Any = self.function  # what users know it by, where it is one of several overloads
        self.scalar = scalar
        self.strict_out = out if isinstance(out, str) else ""
        self._out, self._event = (None if self.strict_out else out), (event or f"aten::{self.name}", flops)
        self._register(all_flops)

    def _register(self, all_flops: Callable[..., int] | None) -> None:
        """Put the row among the others, and its formulas where the profiler looks for them."""
        event, flops = self._event
        if flops is not None:
            tap.FORMULAS.setdefault(event, flops)
        if all_flops is not None:
            self._count(all_flops)
        if self.qualified in OPS:
            raise ValueError(f"row {self.qualified} is defined twice")
        OPS[self.qualified] = self

    def _count(self, formula: Callable[..., int]) -> None:
        """Make a formula that of the row's event, and of the one in place."""
        if not callable(formula):
            raise TypeError(
                f"{self.place}: row {self.qualified}: all_flops= takes a function of recorded inputs, as those of "
                f"ops/flops, but got {formula!r}"
            )
        event = self._event[0].removesuffix("_")
        if tap.ALL_FLOPS.setdefault(event, formula) is not formula:
            raise ValueError(f"{self.place}: row {self.qualified}: all_flops= is stated twice for the event {event}")

    @property
    def place(self) -> str:
        """The file that made the row, and the line if its schema is written there as it is; for messages."""
        lines = enumerate(linecache.getlines(self._file), 1)
        found = [f":{number}" for number, line in lines if f'"{self.qualified}(' in line]
        return self._file + "".join(found[:1])

    # What follows is worked out when the row is first used: importing reads a thousand rows, a program uses fifty.

    @cached_property
    def schema(self) -> _schema.Schema:
        return _schema.parse(self.text)

    @cached_property
    def arguments(self) -> dict[str, Argument]:
        return {a.name: a for a in self.schema.arguments}

    @cached_property
    def offered(self) -> Any:
        """What modes and subclasses are offered to call: what users know it by, or the row's own function, where that name
        stands for several and takes not all that this one does."""
        code = getattr(self.public, "__code__", None)
        if code is None or code.co_flags & inspect.CO_VARKEYWORDS:
            return self.public
        named = {a.python_name for a in self.schema.arguments if a.kwarg_only} | ({"out"} if self.has_out else set())
        return (
            self.public if named <= {*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]} else self.function
        )

    @cached_property
    def takes_tensors(self) -> bool:
        return any(a.is_tensor or a.is_tensor_list for a in self.schema.arguments)

    @property
    def numbered(self) -> bool:
        """Whether its events carry the number of the next autograd node; not where it only makes a new tensor."""
        return self.takes_tensors and not self.name.endswith("_like")

    @cached_property
    def takes_numbers(self) -> bool:
        tensors = sum(a.is_tensor for a in self.schema.arguments)
        return self.rule is not None and tensors > 1 and self.number_fast

    @cached_property
    def has_out(self) -> bool:
        if self._out is not None:
            return bool(self._out)
        return self.kind == "kernel" and all(kind == "Tensor" for kind, _ in self.schema.returns)

    @cached_property
    def formula_parameters(self) -> dict[str, list[str]]:
        return {name: _parameters(f) for name, f in self.formulas.items()}

    @cached_property
    def aliased(self) -> list[str]:
        """Arguments that may be given by NumPy's names."""
        return [old for old in codegen.ALIASES if old in self.arguments and self.kind != "mutate"]

    @cached_property
    def aliases(self) -> list[str]:
        return [codegen.ALIASES[old] for old in self.aliased]

    @cached_property
    def required_text(self) -> list[str]:
        return [a.name for a in self.schema.arguments if not a.has_default and a.name in self.aliased]

    @cached_property
    def event(self) -> int:
        name, flops = self._event
        return tap.register_event(name, self.overload, tap.FUNCTION, self.describe, flops)

    @cached_property
    def out_event(self) -> int:
        """The event of the overload that writes into given tensors."""
        name, flops = self._event
        overload = self.out_overload or _schema.out_overload(self.name, self.overload)
        return tap.register_event(name, overload, tap.FUNCTION, self.describe_out, flops)

    @cached_property
    def number_event(self) -> int:
        """The event of the overload that torch records when the second operand is a Python number."""
        if self.scalar is None:
            return self.event
        name, flops = self._event
        return tap.register_event(name, self.scalar, tap.FUNCTION, self.describe_scalar, flops)

    def check_row(self) -> None:
        """ValueError for a row that contradicts itself; called when it is first used, and by a test for all."""
        for name in self.differentiable:
            if name not in self.arguments:
                raise ValueError(
                    f"{self.place}: row {self.qualified}: {name!r} is neither an option of rows (dispatch/op.py) nor "
                    "an argument of its schema, which it would be the gradient for"
                )
        if self.autocast not in AUTOCAST_CLASSES:
            raise ValueError(
                f"{self.place}: row {self.qualified}: autocast= takes lower_precision, float32 or promote, but got "
                f"{self.autocast!r}"
            )
        codegen.saved_items(self)

    @cached_property
    def varargs(self) -> str:
        """The argument that may be given as several positional numbers: the only one after the tensor."""
        positional = [a for a in self.schema.arguments if not a.kwarg_only]
        rest = [a for a in positional if a.name != "self"]
        only = len(rest) == 1 and rest[0].type == "int[]" and not rest[0].has_default
        return rest[0].name if only and self.spread else ""

    def optional(self, name: str) -> bool:
        return self.arguments[name].type == "Tensor?"

    def describe(self, key: Any) -> tap.InputRecord:
        return describe_inputs(self.schema.arguments, key)

    def describe_out(self, key: Any) -> tap.InputRecord:
        """Inputs of a call that wrote into given tensors: they stand behind the others."""
        written = (Argument("out", "Tensor", False, None, True),) * (len(key) - len(self.schema.arguments))
        return describe_inputs((*self.schema.arguments, *written), key)

    def describe_scalar(self, key: Any) -> tap.InputRecord:
        """Inputs of a call whose second operand was a number."""
        first, second, *rest = self.schema.arguments
        return describe_inputs((first, second._replace(type="Scalar"), *rest), key)

    def __repr__(self) -> str:
        return f"<op {self.schema.text}>"


def _caller() -> str:
    """The file outside of this module that is being run. Its line would take long to find, a thousand times."""
    frame = sys._getframe(2)
    while frame.f_code.co_filename == __file__ and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_filename


def _parameters(formula: Any) -> list[str]:
    code = formula.__code__
    return list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


def _node_name(name: str) -> str:
    """`_log_softmax` -> `LogSoftmaxBackward0`, `max_pool2d` -> `MaxPool2DBackward0`."""
    return name.title().replace("_", "") + "Backward0"


# --- rows -------------------------------------------------------------------------------------------------------------


def _formulas(args: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("__", " "): f for name, f in args.items()}


def op(schema: str, **options: Any) -> Callable[[Callable[..., Any]], Op]:
    """Row of an op whose decorated kernel takes and gives fresh arrays. Other keywords are gradient formulas, named by
    the input they are for (`a__b` for a formula that gives the gradients of `a` and `b` together)."""
    return lambda kernel: Op(schema, kernel, **_options(options))


def view(schema: str, **options: Any) -> Callable[[Callable[..., Any]], Op]:
    """Row of an op whose kernel gives a view (or views) of its first argument."""
    return lambda kernel: Op(schema, kernel, kind="view", **_options(options))


def composite(schema: str, **options: Any) -> Callable[[Callable[..., Any]], Op]:
    """Row of an op made of other ops: an event of its own, no gradient of its own; the body works on tensors."""
    return lambda body: Op(schema, body, kind="composite", **_options(options))


def explicit(schema: str, **options: Any) -> Callable[[Callable[..., Any]], Op]:
    """Row of an op made of other ops but with gradient formulas of its own; the body works on tensors, without graph."""
    options.setdefault("layout", result_layout.as_made)  # the body's ops have theirs
    return lambda body: Op(schema, None, calls=body, **_options(options))


def mutating(schema: str, **options: Any) -> Callable[[Callable[..., Any]], Op]:
    """Row of an op whose kernel changes its first argument in place and which has no functional form of its own."""
    return lambda kernel: Op(schema, kernel, kind="mutate", **_options(options))


def value(schema: str, **options: Any) -> Callable[[Callable[..., Any]], Op]:
    """Row of an op whose kernel gives a plain Python value."""
    return lambda kernel: Op(schema, kernel, kind="value", **_options(options))


def unary(name: str, ufunc: Callable[..., Any], rule: str = "float", **options: Any) -> Op:
    """Row of an elementwise op on one tensor."""
    schema = name if "(" in name else f"{name}(Tensor self) -> Tensor"
    return Op(schema, options.pop("kernel", None), rule=rule, ufunc=ufunc, **_options(options))


def binary(name: str, ufunc: Callable[..., Any], rule: str = "same", **options: Any) -> Op:
    """Row of an elementwise op on two tensors, either of which may be a number."""
    schema = name if "(" in name else f"{name}(Tensor self, Tensor other) -> Tensor"
    return Op(schema, options.pop("kernel", None), rule=rule, ufunc=ufunc, **_options(options))


_OPTION_NAMES = set(inspect.signature(Op.__init__).parameters) - {
    "self",
    "schema",
    "kernel",
    "kind",
    "base",
    "formulas",
}


def _options(args: dict[str, Any]) -> dict[str, Any]:
    """Split keywords into options of `Op` and gradient formulas."""
    options = {k: v for k, v in args.items() if k in _OPTION_NAMES}
    if "inputs" in args:  # the formula for an argument whose name is an option's
        raise TypeError("a row takes gradient formulas by argument name")
    options["formulas"] = _formulas({k: v for k, v in args.items() if k not in _OPTION_NAMES})
    return options


def in_place(
    op: Op,
    *,
    node: str | None = None,
    calls: Callable[..., Any] | None = None,
    inner: tuple[Op, tuple[str, ...]] | None = None,
    overload: str | None = None,
    event: str | None = None,
    **formulas: Any,
) -> Op:
    """The row of `op_`, derived from the row of `op`; formulas and the overload's name are given where they differ."""
    overload = op.overload if overload is None else overload
    name = op.name + "_" + (f".{overload}" if overload else "")
    schema = f"{name}({op.text.partition('(')[2].rpartition('->')[0]}-> Tensor"
    return Op(
        schema,
        None,
        kind="mutate",
        rule=op.rule,
        ufunc=op.ufunc,
        calls=calls,
        inner=inner,
        formulas=_formulas(formulas) or op.formulas,
        node=node or op.node_name,
        fast_when=op.fast_when,
        number_fast=op.number_fast,
        quiet=op.quiet,
        takes=op.takes,
        scalar=op.scalar,
        method=op.method,
        base=op,
        out=False,
        event=event,
    )


namespace.fill()
