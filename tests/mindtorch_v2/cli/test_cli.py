"""The command `mindtorch`: finding commands, help, and mistakes told in one line."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import mindtorch
from mindtorch_v2 import cli, version
from mindtorch_v2.cli import commands


def test_run_gives_the_program_torch_and_its_arguments(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text("import sys, torch\nprint(torch.ones(2).sum().item(), sys.argv[1:])\nsys.exit(3)\n")
    done = mindtorch("run", script, "--steps", "5", "-m")
    assert done.stdout == "2.0 ['--steps', '5', '-m']\n"
    assert done.returncode == 3


def test_run_takes_a_module(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text("import sys\nprint(sys.argv[1:])\n")
    done = mindtorch("run", "-m", "package", "--deep", cwd=tmp_path)
    assert done.stdout == "['--deep']\n"


def test_two_dashes_end_the_options(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import sys\nprint(sys.argv[1:])\n")
    assert mindtorch("run", "--", "program.py", "--", "-x", cwd=tmp_path).stdout == "['--', '-x']\n"


@pytest.mark.parametrize(
    ("option", "begins"), [("--version", "mindtorch_v2 0."), ("--help", "usage: mindtorch COMMAND")]
)
def test_version_and_help_do_not_load_the_package(option: str, begins: str) -> None:
    code = (
        f"import sys, mindtorch_cli; sys.argv = ['mindtorch', '{option}']; mindtorch_cli.main(); "
        "sys.exit('numpy' in sys.modules or 'mindtorch_v2' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout.startswith(begins)) == (0, True)


def test_the_installed_command_has_the_packages_version() -> None:
    assert mindtorch("--version").stdout == f"mindtorch_v2 {version.release} (torch API 2.13)\n"


def test_help_lists_the_commands_and_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in commands.COMMANDS)
    assert "examples:\n  mindtorch run" in text


@pytest.mark.parametrize("name", commands.COMMANDS)
def test_the_docstring_of_a_command_is_its_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    doc = cli.command(name).__doc__ or ""
    assert doc.splitlines()[0] == commands.COMMANDS[name]
    with pytest.raises(SystemExit) as done:
        cli.main([name, "--help"])
    text = capsys.readouterr().out
    assert done.value.code == 0
    assert doc.strip() in text
    assert "examples:" in text


def test_an_unknown_command_suggests_a_known_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["profil"]) == 2
    assert "unknown command 'profil'; did you mean 'profile'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["table", "nowhere.json"], "no such file: nowhere.json"),
        (["convert", "nowhere.json", "out.json"], "no such file: nowhere.json"),
        (["recover", "nowhere.mtspool"], "no such file: nowhere.mtspool"),
        (["diff", "nowhere.json"], "two sides are needed"),
        (["profile"], "no program given"),
        (["profile", "nowhere.py"], "no such program: nowhere.py"),
        (["run"], "no program given"),
        (["attach", "1", "stop"], "process 1 cannot be reached"),
    ],
)
def test_a_mistake_is_told_in_one_line(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert told in shown.err
    assert shown.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["table", "x.json", "--sort", "colour"], "invalid choice: 'colour'"),
        (["table", "x.json", "--filter", "("], "is not a regular expression"),
        (["diff", "a", "b", "--fail-over", "much"], "'much' is not a share; write 10% or 0.1"),
        (["profile", "--steps", "-1", "x.py"], "steps"),
        (["top", "--interval", "0"], "is not a number of seconds"),
    ],
)
def test_a_wrong_option_is_told_in_one_line(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as done:
        cli.main(arguments)
    text = capsys.readouterr().err
    assert done.value.code == 2
    assert told in text
    assert text.count("\n") == 1
    assert "--help`" in text


def test_a_file_that_is_no_trace_is_refused_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"traceEvents": [{"ph": "X"')
    done = mindtorch("table", "bad.json", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("mindtorch: cannot read bad.json")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_command_and_option(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in commands.COMMANDS)
    assert "fail-over" in script
    assert "markdown" in script


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["d"], {"diff"}),
        (["diff", "a", "--fail"], {"--fail-over"}),
        (["table", "--by", "m"], {"module"}),
        (["attach", "7", ""], {"start", "stop", "status"}),
        (["help", "rec"], {"recover"}),
        (["table", "--limit", ""], set()),
        (["table", "a "], {"a file.json"}),
        (["profile", "-o", "a "], {"a file.json"}),
        (["top", ""], set()),
    ],
)
def test_bash_takes_the_completion_and_completes(
    words: list[str], offered: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a file.json").touch()
    cli.main(["completion", "bash"])
    script = capsys.readouterr().out
    line = " ".join(map(shlex.quote, ["mindtorch", *words]))
    ask = f'COMP_WORDS=({line}); COMP_CWORD={len(words)}; _mindtorch; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(
        ["bash", "-c", f"{script}\n{ask}"], capture_output=True, text=True, check=True, timeout=60, cwd=tmp_path
    )
    assert set(done.stdout.splitlines()) - {""} == offered
