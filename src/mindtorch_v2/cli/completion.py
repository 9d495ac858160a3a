"""Print a script that completes `mindtorch` commands in your shell.

examples:
  mindtorch completion bash > ~/.local/share/bash-completion/completions/mindtorch
  mindtorch completion zsh > "${fpath[1]}/_mindtorch"
  mindtorch completion fish > ~/.config/fish/completions/mindtorch.fish
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

from . import parser_of
from .commands import COMMANDS

# Values that are paths, by what help calls them.
_PATHS = ("A", "B", "FILE", "FOLDER", "IN", "OUT", "RANK", "SPOOL", "package", "script.py [args...]")


class Option(NamedTuple):
    """An option as shells show it, or a positional argument, which has no flags."""

    flags: list[str]
    help: str
    choices: list[str]
    takes_value: bool
    is_path: bool


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
        is_path = action.metavar in _PATHS
        found.append(Option(list(action.option_strings), text, choices, action.nargs != 0, is_path))
    return found


def _bash(commands: dict[str, tuple[str, list[Option]]]) -> str:
    """Flags after a dash, values after the flags that take them, else what positional arguments can be."""
    values, flags, places = [], [], []
    for name, (_, options) in commands.items():
        flags.append(f'        {name}) words="{" ".join(flag for option in options for flag in option.flags)}" ;;\n')
        choices = " ".join(choice for option in options if not option.flags for choice in option.choices)
        files = int(any(option.is_path for option in options if not option.flags))
        places.append(f'        {name}) words="{choices}" files={files} ;;\n')
        values += [
            f'        "{name} {flag}") words="{" ".join(option.choices)}" files={int(option.is_path)} ;;\n'
            for option in options
            if option.takes_value
            for flag in option.flags
        ]
    return f"""# bash completion for mindtorch
_mindtorch() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD - 1]}}" words="" files=""
    local commands="{" ".join(commands)}"
    if [[ $COMP_CWORD -eq 1 ]]; then
        COMPREPLY=($(compgen -W "$commands help --help --version" -- "$current"))
        return
    fi
    case "${{COMP_WORDS[1]}} $previous" in
        "help help") words="$commands" files=0 ;;
{"".join(values)}    esac
    if [[ -z $files && $current == -* ]]; then
        case "${{COMP_WORDS[1]}}" in
{"".join(flags)}        esac
    elif [[ -z $files ]]; then
        case "${{COMP_WORDS[1]}}" in
{"".join(places)}        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    if [[ $files == 1 ]]; then
        local IFS=$'\\n'
        COMPREPLY+=($(compgen -f -- "$current"))
    fi
}}
complete -o filenames -F _mindtorch mindtorch
"""


def _zsh(commands: dict[str, tuple[str, list[Option]]]) -> str:
    names = "".join(f"    '{name}:{_quoted(summary)}'\n" for name, (summary, _) in commands.items())
    cases = "".join(
        f"        {name}) _arguments {' '.join(filter(None, map(_zsh_option, options)))}{_zsh_files(options)} ;;\n"
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


def _zsh_files(options: list[Option]) -> str:
    return " '*:file:_files'" if any(option.is_path for option in options if not option.flags) else ""


def _zsh_option(option: Option) -> str:
    if not option.flags:
        return (
            "" if option.is_path else f"':argument:({' '.join(option.choices)})'" if option.choices else "':argument:'"
        )
    value = ""
    if option.takes_value:
        value = f":value:({' '.join(option.choices)})" if option.choices else ":value:" + "_files" * option.is_path
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
            values = " -r" if option.is_path else " -x" if option.takes_value else ""
            values += f" -a '{' '.join(option.choices)}'" if option.choices else ""
            if flags:
                lines.append(f"complete -c mindtorch {seen} {flags}{values} -d '{_fish_quoted(option.help)}'")
            elif option.choices:
                lines.append(f"complete -c mindtorch {seen} -f -a '{' '.join(option.choices)}'")
    return "\n".join(lines) + "\n"


def _fish_quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


WRITERS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
