"""Builds both C modules with AddressSanitizer and UndefinedBehaviorSanitizer, runs the tests that touch them, and runs the
kernels' thread pool under ThreadSanitizer. Whatever a sanitizer reports ends the run.

    python tests/native/sanitize.py                       everything, which takes half an hour
    python tests/native/sanitize.py --only pool           one part: pool, attack or tests
    python tests/native/sanitize.py --only tests -k sort  what is not known here goes to pytest

The modules are built into a copy of the package under build/sanitize, so the ones that are in use stay as they are. Needs
gcc with its sanitizers, Python 3.11 and Linux.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import tomllib

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "sanitize"
PARTS = ("pool", "attack", "tests")
# As far optimised as tests that compare bits need it: below that, products and sums are fused in some loops only.
SANITIZED = "-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g -O2 -fPIC -shared -w".split()
# What the helper does and what kernels do in C; tests that never leave Python are left out.
SUITES = """test_helper test_inside test_kernels_* test_profiler* test_autograd* test_small_* test_indexing test_optim*
    test_random* test_elementwise test_attention test_layouts test_views test_nn_* test_module* test_recurrent test_op_axes
    test_corners test_linalg test_forks test_spool test_attacks""".split()


def run(command: list[str], **environment: str) -> None:
    print("+", *command, flush=True)
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment})
    if done.returncode:
        sys.exit(f"sanitize: {command[0]} ended with {done.returncode}")


def check_pool() -> None:
    """The pool alone: forks in a plain build, as ThreadSanitizer follows none; then all else under it."""
    source, made = str(ROOT / "tests" / "native" / "pool.c"), str(FOLDER / "pool")
    run(["gcc", "-g", "-O1", "-fsanitize=address,undefined", "-pthread", source, "-o", f"{made}_address"])
    run([f"{made}_address"], ASAN_OPTIONS="detect_leaks=0")
    run(["gcc", "-g", "-O1", "-fsanitize=thread", "-pthread", source, "-o", f"{made}_thread"])
    # ThreadSanitizer wants its memory where randomized addresses may have put something else.
    steady = ["setarch", "-R"] if shutil.which("setarch") else []
    run([*steady, f"{made}_thread", "--no-fork"], TSAN_OPTIONS="halt_on_error=1")


def build() -> dict[str, str]:
    """A copy of the package with modules of its own; the environment to run it in."""
    source = FOLDER / "src"
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    suffix, include = sysconfig.get_config_var("EXT_SUFFIX"), sysconfig.get_paths()["include"]
    for module in project["tool"]["setuptools"]["ext-modules"]:
        made = source / (module["name"].replace(".", "/") + suffix)
        flags = [flag for flag in module["extra-compile-args"] if not flag.startswith("-O")]
        sources = [str(FOLDER / name) for name in module["sources"]]
        run(["gcc", *SANITIZED, *flags, f"-I{include}", *sources, "-o", str(made), "-lm", "-pthread"])
    found = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    return {
        "LD_PRELOAD": found.stdout.strip(),
        "PYTHONMALLOC": "malloc",  # else the interpreter's own pools hide what is freed
        "PYTHONPATH": str(source),
        # Tests ask for more memory than there is and expect a MemoryError; the interpreter leaks at its end by design.
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=4096",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--only", choices=PARTS, help="run one part")
    parser.add_argument("--seconds", default="60", help="how long each attack lasts")
    options, rest = parser.parse_known_args()
    parts = (options.only,) if options.only else PARTS
    FOLDER.mkdir(parents=True, exist_ok=True)
    if "pool" in parts:
        check_pool()
    if parts == ("pool",):
        return
    environment = build()
    if "attack" in parts:
        run([sys.executable, "tests/attack/kernels.py", "--seconds", options.seconds], **environment)
        run([sys.executable, "tests/attack/calls.py", "--seconds", options.seconds], **environment)
    if "tests" in parts:
        tests = [str(path) for name in SUITES for path in sorted((ROOT / "tests/mindtorch_v2").rglob(f"{name}.py"))]
        run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *rest, *tests], **environment)


if __name__ == "__main__":
    main()
