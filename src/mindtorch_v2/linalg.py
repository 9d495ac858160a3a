"""torch.linalg."""

from __future__ import annotations

from .core.errors import LinAlgError
from .dispatch.front import FRONTS
from .dispatch.op import OPS

_NAMES = (
    "cholesky cholesky_ex cond cross det diagonal eig eigh eigvals eigvalsh householder_product inv inv_ex ldl_factor "
    "ldl_factor_ex ldl_solve lstsq lu lu_factor lu_factor_ex lu_solve matmul matrix_exp matrix_norm matrix_power "
    "matrix_rank multi_dot norm pinv qr slogdet solve solve_ex solve_triangular svd svdvals tensorinv tensorsolve "
    "vander vecdot vector_norm"
).split()
globals().update({name: FRONTS.get(f"linalg_{name}") or OPS[f"linalg_{name}"].function for name in _NAMES})

__all__ = [*_NAMES, "LinAlgError"]
