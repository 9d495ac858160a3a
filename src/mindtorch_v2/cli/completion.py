"""Print a script that completes `mindtorch` commands in your shell.

examples:
  mindtorch completion bash > ~/.local/share/bash-completion/completions/mindtorch
  mindtorch completion zsh > "${fpath[1]}/_mindtorch"
  mindtorch completion fish > ~/.config/fish/completions/mindtorch.fish
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

from . import COMMANDS, parser_of


class Option(NamedTuple):
    """An option as shells show it."""

    flags: list[str]
    help: str
    choices: list[str]
    takes_value: bool


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=WRITERS, help="the shell to write for")


def run(options: argparse.Namespace) -> int:
    print(WRITERS[options.shell](_commands()), end="")
    return 0


def _commands() -> dict[str, tuple[str, list[Option]]]:
    """Every command with its summary and options."""
    return {name: (summary, _options(parser_of(name))) for name, summary in COMMANDS.items()}


def _options(parser: argparse.ArgumentParser) -> list[Option]:
    found = []
    for action in parser._actions:
        choices = [str(choice) for choice in action.choices or ()]
        text = (action.help or "").replace("%%", "%") if action.help is not argparse.SUPPRESS else ""
        found.append(Option(list(action.option_strings), text, choices, action.nargs != 0))
    return found


def _words(options: list[Option]) -> str:
    """Flags, and what positional arguments can be."""
    words = [flag for option in options for flag in option.flags]
    words += [choice for option in options if not option.flags for choice in option.choices]
    return " ".join(words)


def _bash(commands: dict[str, tuple[str, list[Option]]]) -> str:
    cases = "".join(f'        {name}) words="{_words(options)}" ;;\n' for name, (_, options) in commands.items())
    values = "".join(
        f'        "{name} {flag}") words="{" ".join(option.choices)}" ;;\n'
        for name, (_, options) in commands.items()
        for option in options
        if option.choices
        for flag in option.flags
    )
    return f"""# bash completion for mindtorch
_mindtorch() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD - 1]}}" words=""
    if [[ $COMP_CWORD -eq 1 ]]; then
        COMPREPLY=($(compgen -W "{" ".join(commands)} --help --version" -- "$current"))
        return
    fi
    case "${{COMP_WORDS[1]}} $previous" in
{values}    esac
    if [[ -n $words ]]; then
        COMPREPLY=($(compgen -W "$words" -- "$current"))
        return
    fi
    case "${{COMP_WORDS[1]}}" in
{cases}    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    [[ $current == -* ]] || COMPREPLY+=($(compgen -f -- "$current"))
}}
complete -o filenames -F _mindtorch mindtorch
"""


def _zsh(commands: dict[str, tuple[str, list[Option]]]) -> str:
    names = "".join(f"    '{name}:{_quoted(summary)}'\n" for name, (summary, _) in commands.items())
    cases = "".join(
        f"        {name}) _arguments {' '.join(_zsh_option(option) for option in options)} '*:file:_files' ;;\n"
        for name, (_, options) in commands.items()
    )
    return f"""#compdef mindtorch
_mindtorch() {{
    local -a commands
    commands=(
{names}    )
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    local command="${{words[2]}}"
    shift words
    (( CURRENT -= 1 ))
    case "$command" in
{cases}    esac
}}
_mindtorch "$@"
"""


def _zsh_option(option: Option) -> str:
    if not option.flags:
        return f"':{'argument'}:({' '.join(option.choices)})'" if option.choices else ""
    value = f":value:({' '.join(option.choices)})" if option.choices else ":value:_files" if option.takes_value else ""
    help_text = _quoted(option.help).replace("[", "(").replace("]", ")").replace(":", " ")
    return " ".join(f"'{flag}[{help_text}]{value}'" for flag in option.flags)


def _quoted(text: str) -> str:
    return text.replace("'", "'\\''")


def _fish(commands: dict[str, tuple[str, list[Option]]]) -> str:
    lines = ["# fish completion for mindtorch"]
    for name, (summary, options) in commands.items():
        lines.append(f"complete -c mindtorch -n __fish_use_subcommand -a {name} -d '{_fish_quoted(summary)}'")
        seen = f"-n '__fish_seen_subcommand_from {name}'"
        for option in options:
            flags = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags)
            values = f" -x -a '{' '.join(option.choices)}'" if option.choices else " -r" if option.takes_value else ""
            if flags:
                lines.append(f"complete -c mindtorch {seen} {flags}{values} -d '{_fish_quoted(option.help)}'")
            elif option.choices:
                lines.append(f"complete -c mindtorch {seen} -a '{' '.join(option.choices)}'")
    return "\n".join(lines) + "\n"


def _fish_quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


WRITERS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
