"""The documents against the tree: links, paths, make targets, commands and code in them are there."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

import pytest

from mindtorch_v2.cli import parser_of
from mindtorch_v2.cli.commands import COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
# What a run makes, hence not there in a fresh clone.
MADE = {"demo"}
pytestmark = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of one language."""
    return re.findall(rf"^ *```{language}\n(.*?)^ *```$", page.read_text(), re.DOTALL | re.MULTILINE)


def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (page.parent / link).exists()] == []


def test_paths_that_are_named_exist(page: Path) -> None:
    named = re.findall(r"(?<![\w/.-])(?:src|tests|docs|benchmarks|examples|tools)/[\w./-]*\w", page.read_text())
    assert [path for path in named if path not in MADE and not (ROOT / path).exists()] == []


def test_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    code = re.findall(r"`([^`\n]+)`", page.read_text()) + [
        line for block in blocks(page, "(?:sh|bash|console)?") for line in block.splitlines()
    ]
    calls = [call.split("#")[0].split()[1:] for call in code if re.match(r"make [a-z]", call)]
    asked = {word for words in calls for word in words if re.fullmatch(r"[a-z-]+", word)}
    assert asked - targets == set()


def test_commands_exist(page: Path) -> None:
    calls = re.findall(r"(?:^|`|\| )mindtorch ([a-z]+)([^`#|\n]*)", page.read_text(), re.MULTILINE)
    assert {name for name, _ in calls} - set(COMMANDS) == set()
    for name, rest in calls:
        known = parser_of(name)._option_string_actions
        # After the file to run, options are the program's own.
        own = rest.split(".py")[0] if name in ("run", "profile") else rest
        assert [option for option in re.findall(r"(?<= )--?[a-z][\w-]*", own) if option not in known] == []


def is_python(text: str) -> bool:
    try:
        ast.parse(textwrap.dedent(text))
    except SyntaxError:
        return False
    return True


def test_python_in_pages_is_python(page: Path) -> None:
    assert [block for block in blocks(page, "python") if not is_python(block)] == []
