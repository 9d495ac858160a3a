"""Row decorators of the operators of `torch.nn.functional`: they are no methods of tensors."""

from __future__ import annotations

import functools

from ...dispatch import op as _op

op = functools.partial(_op.op, method=False)
composite = functools.partial(_op.composite, method=False)
explicit = functools.partial(_op.explicit, method=False)
mutating = functools.partial(_op.mutating, method=False)
