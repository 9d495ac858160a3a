"""The command `mindtorch`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mindtorch_v2.cli import main


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "import sys; from mindtorch_v2.cli import main; sys.exit(main())", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_run_gives_the_program_torch_and_its_arguments(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text("import sys, torch\nprint(torch.ones(2).sum().item(), sys.argv[1:])\nsys.exit(3)\n")
    done = run("run", str(script), "--steps", "5")
    assert done.stdout == "2.0 ['--steps', '5']\n"
    assert done.returncode == 3


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == "mindtorch_v2 2.13.0+mindtorch\n"


def test_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "example: mindtorch run" in capsys.readouterr().out


def test_an_unknown_command_says_what_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profil"]) == 2
    assert "unknown command 'profil'; known: run" in capsys.readouterr().err
