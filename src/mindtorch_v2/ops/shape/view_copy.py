"""Rows of `*_copy`: what a view op gives, in memory of its own."""

from __future__ import annotations

from typing import Any

from ...core.device import contiguous_format
from ...core.dtype import dtype as DType
from ...core.tensor import Tensor
from ...dispatch.front import front
from ...dispatch.op import Op, composite
from . import copies, permute, resize, slice, split
from . import view as views
from .copies import clone


def _copying(row: Op) -> Op:
    """The row of `x_copy`: the view, then a contiguous copy of it (or of each of them)."""
    head, _, tail = row.text.partition("(")
    name, dot, overload = head.partition(".")
    arguments, _, returns = tail.rpartition("->")
    schema = f"{name}_copy{dot}{overload}({arguments.replace('(a)', '')}-> {returns.replace('(a)', '').strip()}"

    def body(*arguments: Any) -> Any:
        function = row.function
        made = function(arguments[0], **dict(zip(list(row.arguments)[1:], arguments[1:], strict=True)))
        if isinstance(made, Tensor):
            return clone(made, memory_format=contiguous_format)
        return tuple(clone(t, memory_format=contiguous_format) for t in made)

    if not row.formulas:
        return composite(schema, method=False)(body)
    options: dict[str, Any] = {"out_overload": f"{overload}_out" if overload else None, "method": False}
    return Op(schema, None, calls=body, formulas=row.formulas, node=f"{row.node_name}_copy", **options)


alias_copy = _copying(copies._alias).function
as_strided_copy = _copying(slice._as_strided).function
detach_copy = _copying(copies._detach).function
diagonal_copy = _copying(slice._diagonal).function
expand_copy = _copying(views.expand_row).function
permute_copy = _copying(permute._permute).function
select_copy = _copying(slice._select).function
slice_copy = _copying(slice._slice).function
t_copy = _copying(permute._t).function
transpose_copy = _copying(permute._transpose).function
unfold_copy = _copying(slice._unfold).function
unsqueeze_copy = _copying(views._unsqueeze).function
view_as_complex_copy = _copying(resize._view_as_complex).function
view_as_real_copy = _copying(resize._view_as_real).function
split_copy = _copying(split._split).function
split_with_sizes_copy = _copying(split._split_with_sizes).function
unbind_copy = _copying(split._unbind).function
_squeeze_copies = [_copying(row) for row in (views._squeeze, views._squeeze_dim, views._squeeze_dims)]
_view_copies = [_copying(row) for row in (views._view, views._view_dtype)]


@front("squeeze_copy")
def squeeze_copy(input: Tensor, *dims: Any, dim: Any = None, axis: Any = None) -> Tensor:
    """`squeeze` in memory of its own."""
    wanted = views.dims_given(dims, dim, axis)
    if wanted is None:
        return _squeeze_copies[0].function(input)
    row = _squeeze_copies[2 if isinstance(wanted, (tuple, list)) else 1]
    return row.function(input, wanted)


@front("view_copy")
def view_copy(input: Tensor, *shape: Any, size: Any = None, dtype: Any = None) -> Tensor:
    """`view` in memory of its own."""
    if shape:
        size = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
    if isinstance(size, DType):
        dtype = size
    if dtype is not None:
        return _view_copies[1].function(input, dtype)
    return _view_copies[0].function(input, size=size)
