"""What commands there are, as `mindtorch --help` and `--version` say it. It imports nothing: both answer at once, without
loading the package (see `mindtorch_cli`)."""

_ABOUT = (
    "The command `mindtorch`: runs torch programs, profiles them, and shows, compares and converts what was recorded."
)
# Every command with the first line of its help.
COMMANDS = {
    "run": "Run a torch program with mindtorch_v2 in torch's place.",
    "profile": "Run a torch program under the profiler, without touching its code.",
    "table": "Show where the time went, as a table.",
    "advise": "Say what could be saved: where the program loses time, and what to do about it.",
    "report": "Write a report: one HTML file that opens anywhere, offline.",
    "diff": "Compare runs: what got slower, faster, appeared or went away, beyond noise.",
    "analyze": "Say what limits a run on GPUs and other devices, and who asked for their time.",
    "info": "Say what is in a file.",
    "query": "Ask a file by SQL: events, steps, modules, memory and kernels as tables.",
    "convert": "Write a trace in another format, chosen by the end of the file's name.",
    "recover": "Get back what a killed program had recorded.",
    "merge": "Put traces of several ranks or workers on one clock, in one file.",
    "top": "Watch a running program: its hottest operators of the last seconds.",
    "attach": "Start or stop profiling a program that is running.",
    "completion": "Print a script that completes `mindtorch` commands in your shell.",
}
_EXAMPLES = """\
examples:
  mindtorch run examples/gpt.py --steps 20
  mindtorch profile --shapes --memory -o before examples/gpt.py
  mindtorch advise before
  mindtorch table before --sort total --limit 20
  mindtorch diff before after --fail-over 10%
"""


def usage(prog: str) -> str:
    """The help of the command as a whole."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {summary}" for name, summary in COMMANDS.items()]
    return (
        f"usage: {prog} COMMAND ...\n\n{_ABOUT}\n\ncommands:\n"
        + "\n".join(lines)
        + f"\n\n`{prog} COMMAND --help` explains a command; `{prog} --version` prints the version.\n\n{_EXAMPLES}"
    )


def version_line(folder: str = "") -> str:
    """One number, and which torch's API it is. `folder` is the package's, for whoever has not imported it."""
    names: dict[str, str] = {}
    path = (folder or __file__.rpartition("cli")[0].rstrip("/\\")) + "/version.py"
    with open(path, encoding="utf-8") as file:
        exec(compile(file.read(), path, "exec"), names)
    torch = ".".join(names["__version__"].split(".")[:2])
    return f"mindtorch_v2 {names['release']} (torch API {torch})"
