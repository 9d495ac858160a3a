"""Writes docs/operators.md: operator by operator, in what it agrees with torch.

    python tests/parity/record_operators.py [--results DIRECTORY | --rows]

Runs the measuring scripts beside this file, or reads what they wrote with --json into a directory before (one file for
each figure, named after it). With --rows, which needs no torch, only the list of rows is written anew. A torch-free test
holds the page against the op table and the floors.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mindtorch_v2.dispatch.op import OPS

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "operators.md"
DTYPES = ("float32", "float64", "int64", "bool", "complex64")
FIGURES = {
    "operators": ("measure_operators.py",),
    **{f"operators_{d}": ("measure_operators.py", "--dtype", d) for d in DTYPES[1:]},
    "double_backward": ("measure_second.py",),
    "error_inputs": ("measure_errors.py",),
    "meta": ("measure_meta.py",),
}

# Why an operator does not agree, where that is no fault of ours to mend.
REASONS = {
    "nn.functional.triplet_margin_with_distance_loss": "torch's sample calls a module of torch's own on our tensors",
    "linalg.eig": "eigenvectors are unique up to a complex factor only, and NumPy's LAPACK chooses another than torch's",
    "linalg.eigh": "eigenvectors are unique up to a sign or phase, and NumPy's LAPACK chooses another than torch's",
    "linalg.svd": "singular vectors are unique up to a sign or phase, and NumPy's LAPACK chooses another than torch's",
    "svd": "singular vectors are unique up to a sign or phase, and NumPy's LAPACK chooses another than torch's",
    "special.bessel_j0": "between 5 and 8 torch's value is off in the seventh digit; ours agrees with SciPy's",
    "special.bessel_j1": "between 5 and 8 torch's value is off in the seventh digit; ours agrees with SciPy's",
    "special.bessel_y1": "between 5 and 8 torch's value is off in the seventh digit; ours agrees with SciPy's",
    "renorm": "torch gives NaN for the infinity norm of complex slices, ours the derivative",
    "nn.functional.linear_cross_entropy.chunked": "torch's chunked form has no second derivative; ours has",
    "matrix_exp": "in one batch torch's small elements next to large ones are off by more than the tolerance",
    "cat": "torch refuses to resize memory that came from elsewhere; ours takes new memory",
    "gather": "torch resizes `out=` before it looks for overlap; ours looks first",
    "topk": "of equal values torch keeps the ones its sort happens to leave",
    "kthvalue": "of equal values torch names the place its selection happens to leave",
    "mode": "of equal values torch names the place its sort happens to leave",
    "sort": "of equal values torch, not asked for a stable sort, gives the order its sort happens to leave",
    "argsort": "of equal values torch, not asked for a stable sort, gives the order its sort happens to leave",
    "nn.functional.avg_pool2d": "integers: torch divides by the window in another order of rounding",
    "nn.functional.avg_pool3d": "integers: torch divides by the window in another order of rounding",
}

HEAD = """# Operators

Written by `python tests/parity/record_operators.py`; do not edit by hand.

torch ships sample inputs for its operators (OpInfo). Each operator below was called with them here and in torch
2.13.0; it agrees when values, dtypes, shapes and gradients are the same for every sample. `make parity` measures the
figures again and fails when one falls below its floor in `tests/parity/floors.json`. `operators` is float32;
`double_backward` compares the gradients of gradients in float64, `error_inputs` the exceptions that wrong calls raise,
`meta` the shapes and dtypes of results and gradients on the meta device.

"""

SOURCES = """
## Where the numbers come from

Linear algebra is NumPy's LAPACK, Fourier transforms are NumPy's pocketfft, special functions are our own
(`kernels/special*.py`, fitted by `tools/fit_special.py` and checked against high precision). SciPy is not used, and there is
no extra for it: its special functions would save code but no digits, its LAPACK has one factorization more that torch has
too (`ldl_factor`, which is short), and a program should give the same numbers whether or not it is installed.

`conj()`, `mH` and `imag` of a conjugated tensor are views on the same memory, as in torch: their values change sign when they
are used (`is_conj()`, `is_neg()`), and changes in place reach the base. `real`, `imag`, `view_as_real` and `view_as_complex`
are views too. Results lie in memory as torch's do, channels_last included, and have the same strides on meta; those of linear
algebra and Fourier transforms are in row-major order, where torch often lays columns side by side.

Not provided: `MaskedTensor` (a prototype in torch; `torch.masked` has its reductions), quantized tensors, `complex32` and
Sobol sequences. `lobpcg` picks from all eigenvalues instead of iterating; the tangents of `autograd.forward_ad` are found by
differentiating twice.
"""


def measured(directory: Path) -> dict[str, Any]:
    """The results by figure; what is not in the directory is measured."""
    found = {}
    for name, command in FIGURES.items():
        path = directory / f"{name}.json"
        if not path.exists():
            script, *arguments = command
            subprocess.run([sys.executable, str(HERE / script), *arguments, "--json", str(path)], check=True)
        found[name] = json.loads(path.read_text())
    return found


def mark(result: Any) -> str:
    if result is None:
        return ""
    return "yes" if result["backward"] == result["samples"] else f"{result['backward']}/{result['samples']}"


def summary(results: dict[str, Any]) -> Iterator[str]:
    yield "| figure | operators that agree | of |"
    yield "|---|---:|---:|"
    for name, found in results.items():
        [(reached, of)] = found["figures"].values()
        yield f"| {name} | {reached} | {of} |"


def notes(name: str, columns: dict[str, Any]) -> str:
    short = [figure for figure, r in columns.items() if r is not None and r["backward"] < r["samples"]]
    if not short:
        return ""
    return REASONS.get(name) or "; ".join(f"{f}: {columns[f]['why'][:90].replace('|', '/')}" for f in short)


def operators(results: dict[str, Any]) -> Iterator[str]:
    yield "| operator | " + " | ".join(DTYPES) + " | double backward | errors | meta | notes |"
    yield "|---|" + ":-:|" * (len(DTYPES) + 3) + "---|"
    names = sorted({name for found in results.values() for name in found["results"]}, key=str.lower)
    for name in names:
        columns = {figure: found["results"].get(name) for figure, found in results.items()}
        cells = " | ".join(mark(r) for r in columns.values())
        yield f"| `{name}` | {cells} | {notes(name, columns)} |"


def rows() -> Iterator[str]:
    """The op table, by the module a row stands in."""
    families: dict[str, list[Any]] = {}
    for op in OPS.values():
        made = op.base or op
        body = made.kernel or made.calls or made.ufunc
        module = getattr(body, "__module__", None) or "numpy"
        family = module.rpartition(".")[2] if ".ops." in module or ".kernels." in module else "elementwise"
        families.setdefault(family, []).append(op)
    yield f"{len(OPS)} rows, of which {sum(bool(op.formulas) for op in OPS.values())} have gradient formulas of their own."
    yield ""
    for family, members in sorted(families.items()):
        yield f"- **{family}**: " + ", ".join(sorted({op.name for op in members}))


TABLE = "## The op table\n\n"


def page(results: dict[str, Any]) -> str:
    legend = "`yes`: all samples agree; `3/8`: three of eight do; empty: torch has no such samples.\n\n"
    by_operator = "## Operator by operator\n\n" + legend + "\n".join(operators(results))
    return "\n".join([HEAD + "\n".join(summary(results)), SOURCES, by_operator, "", TABLE + "\n".join(rows()), ""])


def main() -> None:
    parser = argparse.ArgumentParser(description="Write docs/operators.md from the measuring scripts' results.")
    parser.add_argument("--results", type=Path, help="a directory with one <figure>.json for each figure")
    parser.add_argument("--rows", action="store_true", help="write only the list of rows anew")
    options = parser.parse_args()
    if options.rows:
        text = PAGE.read_text().partition(TABLE)[0] + TABLE + "\n".join(rows()) + "\n"
    else:
        with tempfile.TemporaryDirectory() as scratch:
            text = page(measured(options.results or Path(scratch)))
    PAGE.write_text(text)
    print(f"{PAGE.name}: {len(OPS)} rows")


if __name__ == "__main__":
    main()
