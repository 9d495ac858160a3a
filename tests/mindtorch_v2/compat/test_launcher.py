"""The launcher: a program that says `import torch` runs as under plain python, with mindtorch_v2 in torch's place."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = str(Path(__file__).parents[3] / "src")


def launch(folder: Path, *arguments: str, program: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run `python -m mindtorch_v2 arguments` in a folder, with `program` as its script.py."""
    if program is not None:
        (folder / "script.py").write_text(program)
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    command = [sys.executable, "-m", "mindtorch_v2", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


def printed(folder: Path, program: str, *arguments: str) -> list[str]:
    done = launch(folder, "script.py", *arguments, program=program)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_torch_modules_are_ours(tmp_path: Path) -> None:
    program = """
import torch, torch.utils.data as data, torch.optim.lr_scheduler
import mindtorch_v2, mindtorch_v2.utils.data, sys
print(torch is mindtorch_v2, data is mindtorch_v2.utils.data, torch.__version__)
print(sys.modules["torch.optim"] is sys.modules["mindtorch_v2.optim"], torch.__spec__.name)
from torch.autograd import Variable
print(isinstance(torch.ones(1), Variable))
"""
    assert printed(tmp_path, program) == ["True True 2.13.0+mindtorch", "True mindtorch_v2", "True"]


def test_modules_and_classes_say_they_are_torchs(tmp_path: Path) -> None:
    program = """
import torch, torch.optim.lr_scheduler, torch.utils.data
x = torch.ones(1, requires_grad=True)
for kind in (type(x), torch.nn.Linear, torch.optim.RMSprop, type(x.dtype), torch.utils.data.DataLoader, type(x.shape)):
    print(kind)
print(torch.__name__, torch.nn.functional.__name__, torch.nn.functional.relu.__module__, torch.add.__module__)
print(type((x + 1).grad_fn), torch.typename(torch.nn.Linear), torch.overrides.resolve_name(torch.add))
"""
    assert printed(tmp_path, program) == [
        "<class 'torch.Tensor'>",
        "<class 'torch.nn.modules.linear.Linear'>",
        "<class 'torch.optim.rmsprop.RMSprop'>",
        "<class 'torch.dtype'>",
        "<class 'torch.utils.data.dataloader.DataLoader'>",
        "<class 'torch.Size'>",
        "torch torch.nn.functional torch.nn.functional torch",
        "<class 'AddBackward0'> torch.nn.modules.linear.Linear torch.add",
    ]


def test_everything_is_found_under_the_name_it_gives(tmp_path: Path) -> None:
    """So that it can be pickled: module and qualified name lead back to the object."""
    program = """
import importlib, pkgutil, sys, types, mindtorch_v2, torch
bridges = ("__main__", "tensorboard", "_helper", "_kernels", "shim", "native", "static", "safetensors")
for info in pkgutil.walk_packages(mindtorch_v2.__path__, "torch."):
    if not any(part in bridges for part in info.name.split(".")):
        importlib.import_module(info.name)
lost, count = [], 0
for name, module in list(sys.modules.items()):
    if not name.startswith("mindtorch_v2"):
        continue
    for thing in vars(module).values():
        place = getattr(thing, "__module__", None)
        if isinstance(thing, type) and isinstance(place, str) and place.partition(".")[0] in ("torch", "mindtorch_v2"):
            count += 1
            if "<" in thing.__qualname__ or place in ("mindtorch_v2.core._helper", "mindtorch_v2.kernels._kernels"):
                continue
            found = importlib.import_module(place)
            for part in thing.__qualname__.split("."):
                found = getattr(found, part, None)
            if found is not thing or not place.startswith("torch"):
                lost.append(f"{place}.{thing.__qualname__}")
print(count > 500, sorted(set(lost)))
"""
    assert printed(tmp_path, program) == ["True []"]


def test_pickles_name_torch_and_load_again(tmp_path: Path) -> None:
    program = """
import copy, pickle, torch
model = torch.nn.Sequential(torch.nn.Linear(2, 1))
values = [torch.ones(2), torch.float32, torch.Size([3]), torch.device("cpu"), torch.optim.Adagrad(model.parameters())]
text = pickle.dumps([model, *values])
print(b"torch.nn.modules.linear" in text, b"mindtorch" in text)
print([type(v).__name__ for v in pickle.loads(text)])
"""
    assert printed(tmp_path, program) == [
        "True False",
        "['Sequential', 'Tensor', 'dtype', 'Size', 'device', 'Adagrad']",
    ]


def test_libraries_that_ask_find_torch(tmp_path: Path) -> None:
    program = """
import importlib.metadata, importlib.util
print(importlib.util.find_spec("torch") is not None, importlib.metadata.version("torch"))
print(importlib.util.find_spec("torch.no_such_module"))
"""
    assert printed(tmp_path, program) == ["True 2.13.0+mindtorch", "None"]


def test_main_looks_as_under_python(tmp_path: Path) -> None:
    program = """
import sys, os
here = os.path.dirname(__file__)
print(__name__, os.path.basename(__file__), __spec__, sys.argv, os.path.samefile(sys.path[0], here))
print(sys.modules["__main__"].__dict__ is globals(), sorted(n for n in globals() if not n.startswith("__")))
"""
    assert printed(tmp_path, program, "-x", "1") == [
        "__main__ script.py None ['script.py', '-x', '1'] True",
        "True ['here', 'os', 'sys']",
    ]


def test_a_module_runs_by_name(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "__main__.py").write_text("import sys, torch\nprint(__spec__.name, sys.argv[1:])")
    done = launch(tmp_path, "-m", "package", "a")
    assert (done.returncode, done.stdout) == (0, "package.__main__ ['a']\n")


def test_subprocesses_get_ours(tmp_path: Path) -> None:
    program = """
import subprocess, sys
code = "import torch.nn, importlib.metadata as m; print(torch.__version__, m.version('torch'))"
print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip())
"""
    assert printed(tmp_path, program) == ["2.13.0+mindtorch 2.13.0+mindtorch"]


def test_spawned_processes_get_ours(tmp_path: Path) -> None:
    program = """
import torch
import torch.multiprocessing as mp

def work(index, queue):
    queue.put((index, torch.__version__))

if __name__ == "__main__":
    queue = mp.get_context("spawn").SimpleQueue()
    mp.spawn(work, (queue,), nprocs=1)
    print(queue.get())
"""
    assert printed(tmp_path, program) == ["(0, '2.13.0+mindtorch')"]


def test_tracebacks_begin_in_the_program(tmp_path: Path) -> None:
    done = launch(tmp_path, "script.py", program="def f():\n    raise ValueError('wrong')\nf()\n")
    assert done.returncode == 1
    first, place, *rest = done.stderr.splitlines()
    assert first == "Traceback (most recent call last):"
    assert place.endswith('script.py", line 3, in <module>')
    assert rest[-1] == "ValueError: wrong"
    assert "_launcher" not in done.stderr


def test_a_syntax_error_shows_the_line_alone(tmp_path: Path) -> None:
    done = launch(tmp_path, "script.py", program="x = (\n")
    assert done.returncode == 1
    assert done.stderr.lstrip().startswith("File ")
    assert "_launcher" not in done.stderr


def test_the_programs_own_hook_reports(tmp_path: Path) -> None:
    program = """
import sys, traceback
sys.excepthook = lambda kind, value, tb: print(kind.__name__, value, len(traceback.extract_tb(tb)))
raise KeyError("k")
"""
    done = launch(tmp_path, "script.py", program=program)
    assert (done.returncode, done.stdout, done.stderr) == (1, "KeyError 'k' 1\n", "")


@pytest.mark.parametrize(("ending", "code"), [("sys.exit(3)", 3), ("sys.exit('bad')", 1), ("sys.exit()", 0)])
def test_exit_codes(tmp_path: Path, ending: str, code: int) -> None:
    assert launch(tmp_path, "script.py", program=f"import sys\n{ending}\n").returncode == code


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ")
def test_an_interrupt_ends_by_its_signal(tmp_path: Path) -> None:
    program = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"
    done = launch(tmp_path, "script.py", program=program)
    assert done.returncode == -signal.SIGINT
    assert done.stderr.rstrip().endswith("KeyboardInterrupt")


def test_what_cannot_be_run_is_said(tmp_path: Path) -> None:
    missing = launch(tmp_path, "nowhere.py")
    assert missing.returncode == 2
    assert "can't open file" in missing.stderr
    assert "nowhere.py" in missing.stderr
    unknown = launch(tmp_path, "-m", "no_such_module")
    assert unknown.returncode == 1
    assert "No module named no_such_module" in unknown.stderr


def test_without_a_program_there_is_usage(tmp_path: Path) -> None:
    done = launch(tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: python -m mindtorch_v2")


def test_a_missing_module_is_explained(tmp_path: Path) -> None:
    done = launch(tmp_path, "script.py", program="import torch.optin\n")
    assert done.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: No module named 'torch.optin': mindtorch_v2 does not provide it. "
        "The nearest module that is there: torch.optim"
    )


def test_a_text_runs_as_under_python(tmp_path: Path) -> None:
    program = "import torch, sys; print(torch.__version__, sys.argv, __name__, sys.path[0] == ''); raise SystemExit(4)"
    done = launch(tmp_path, "-c", program, "a", "-b")
    assert done.stdout.split("\n")[0] == "2.13.0+mindtorch ['-c', 'a', '-b'] __main__ True"
    assert done.returncode == 4
    assert "usage: python -m mindtorch_v2" in launch(tmp_path, "-c").stderr
