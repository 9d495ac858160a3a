"""Views as ops are made of them: what the bodies of recorded ops call, which build no graph."""

from __future__ import annotations

from ...dispatch.inside import inside
from .slice import _narrow, _select, _slice
from .view import _squeeze_dim, _unsqueeze, inner_reshape, inner_view

view, reshape = inner_view, inner_reshape  # of a tuple of sizes
unsqueeze, squeeze = inside(_unsqueeze), inside(_squeeze_dim)
select, slice_ = inside(_select), inside(_slice)
# narrow(tensor, dim, start, length) of what is there
narrow = inside(_narrow, lambda self, dim, start, length: slice_(self, dim % self._a.ndim, start, start + length, 1))
