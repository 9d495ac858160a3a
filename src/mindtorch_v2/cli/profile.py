"""Run a torch program under the profiler, without touching its code.

The program runs as under `mindtorch run`: its output, tracebacks and exit code are its own. In the end the table and what
could be saved are printed, and trace.json, report.html and capture.mtspool are in the folder named by -o. Python stacks
are recorded, which says what line to change; --no-stacks leaves them out. Ctrl-C ends the program and keeps
the profile, and so does the end of a time limit (SIGTERM); of a program that is killed outright `mindtorch recover` gets
the spool back.

A step ends where the first optimizer that steps has made its step; the first one begins when the optimizer is made. A
program that steps a torch.profiler of its own is followed in that instead, and gets its own events too. Without --wait,
--warmup and --steps everything is recorded, from the first line of the program on. --step-on names a function instead, in
the program (`train_step`, `Trainer.step`) or in a module (`package.module:Trainer.step`): a step ends where it returns.

--torch times the installed torch instead of mindtorch_v2, under torch's own profiler. Its windows are written to the folder
windows/ as they end, so that a program that is killed leaves all earlier ones; a long run without --steps is cut into
windows at the ends of steps.

examples:
  mindtorch profile train.py --epochs 1
  mindtorch profile --wait 2 --warmup 1 --steps 5 --shapes --memory -o before train.py
  mindtorch profile --no-stacks --all-threads -m package.train
  mindtorch profile --torch --wait 100 --steps 5 --repeat 10 train.py
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from ..core import tap
from ..launch.stepping import StepFunction
from ..profiler import control
from ..profiler.advise.steps import find_steps
from ..profiler.analyse.metrics import Metrics
from ..profiler.capture.capture import CPU_OP, Capture
from ..profiler.program import REPORT, SPOOL, TRACE, Plan, ProgramProfile, write_files
from ..profiler.read.torch_windows import FOLDER as WINDOWS
from ..profiler.record import environment
from ..profiler.record.endings import guest_handler, interrupts_held
from ..profiler.torch_control import TorchControl
from ..profiler.torch_program import TorchProfile, clean
from . import real_torch, wire
from .advise import of_profile
from .reporters.table import narrow, with_visible_names
from .run import add_program, launch, program_of
from .table import SORTS, rows_of, timed_in
from .terminal import UserError, Working, say, width_of_terminal, write_whatever_comes

# Flags of the command, and what the profiler calls them.
RECORDED = {
    "shapes": "record_shapes",
    "stacks": "with_stack",
    "memory": "profile_memory",
    "flops": "with_flops",
}
_FLAG_HELP = {
    "shapes": "record the shapes of inputs",
    "stacks": "record Python stacks and functions",
    "memory": "record allocations and frees",
    "flops": "count floating point operations",
}


def add_recorded(parser: argparse.ArgumentParser, stacks: bool = False) -> None:
    """Flags of what is recorded beside names and times; stacks may be so unless they are switched off."""
    for flag, text in _FLAG_HELP.items():
        always = stacks and flag == "stacks"
        parser.add_argument(f"--{flag}", action="store_true", default=always, help=f"{text} (on)" if always else text)
    if stacks:
        parser.add_argument(
            "--no-stacks", dest="stacks", action="store_false", help="do not: less is told, at less cost"
        )


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s [options] [-m] program [args...]"
    parser.add_argument("-o", "--output", metavar="FOLDER", help="where to write (NAME.profile, NAME the program's)")
    parser.add_argument("--wait", type=_steps, default=0, metavar="N", help="steps that are not recorded at first (0)")
    parser.add_argument(
        "--warmup", type=_steps, default=0, metavar="N", help="steps recorded after that, and dropped (0)"
    )
    parser.add_argument(
        "--active", "--steps", type=_steps, default=0, metavar="N", help="steps recorded then (all that follow)"
    )
    parser.add_argument(
        "--repeat",
        type=_steps,
        default=1,
        metavar="N",
        help="times that waiting, warmup and steps repeat (1; 0: always)",
    )
    parser.add_argument("--step-on", metavar="FUNCTION", default="", help="count returns of this function as steps")
    parser.add_argument("--torch", action="store_true", help="time the installed torch, not mindtorch_v2")
    parser.add_argument(
        "--clock",
        default="wall",
        choices=("wall", "cpu"),
        help="what times are: by the clock, or CPU time of the process",
    )
    add_recorded(parser, stacks=True)
    parser.add_argument(
        "--all-threads", action="store_true", help="record every thread and forked worker, not the main thread alone"
    )
    parser.add_argument("--sort", default="self", choices=SORTS, help="order of the table (self)")
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="rows of the table (20)")
    parser.add_argument("--wide", action="store_true", help="all columns, however narrow the terminal")
    parser.add_argument("--no-report", action="store_true", help="do not write report.html")
    add_program(parser)


def _steps(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of steps; write 0, 1, 2, …")
    return int(text)


def check(options: argparse.Namespace) -> None:
    program = program_of(options)
    if not program:
        raise UserError(
            "no program given; write `mindtorch profile script.py [args...]` or `mindtorch profile -m package`"
        )
    if program[0] != "-m" and not os.path.exists(program[0]):
        raise UserError(f"no such program: {program[0]}; give the path of a Python file, or -m and a package")
    if options.repeat != 1 and not options.active:
        raise UserError("--repeat needs --steps N, the steps that are recorded each time")
    if options.torch and options.clock != "wall":
        raise UserError("torch's profiler reads the wall clock only; leave out --clock with --torch")
    options.torch = real_torch.load() if options.torch else None
    try:
        Path(folder_of(options)).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write into {folder_of(options)}: {error.strerror}; name a folder with -o") from error


def name_of(options: argparse.Namespace) -> str:
    program = program_of(options)
    return program[1] if program[0] == "-m" else os.path.splitext(os.path.basename(os.path.abspath(program[0])))[0]


def script_of(options: argparse.Namespace) -> str:
    """What is run, as recordings say it: an absolute path, or `-m package`."""
    program = program_of(options)
    return f"-m {program[1]}" if program[0] == "-m" else os.path.abspath(program[0])


def folder_of(options: argparse.Namespace) -> str:
    """An absolute path, as programs may change their folder."""
    return os.path.abspath(options.output or f"{name_of(options)}.profile")


def run(options: argparse.Namespace) -> int:
    folder = folder_of(options)
    profiled, controls = _prepared(options, folder)
    timed = (
        environment.implementation_of({}, live=True) if options.torch is None else f"torch {options.torch.__version__}"
    )
    say(f"timing {timed}")
    if options.torch is None and real_torch.installed():
        say("mindtorch_v2 takes the place of the installed torch; `mindtorch profile --torch` times that")
    say(f"profiling {name_of(options)}; Ctrl-C ends it and keeps the profile, `mindtorch top {os.getpid()}` watches it")
    step = StepFunction(options.step_on) if options.step_on else None
    with _ended_by_its_signal(), wire.listening(controls.answer):
        profiled.start()
        try:
            with _unwound_by_sigterm():
                launch(program_of(options), ours=options.torch is None, step=step)
                _wait_for_threads()
        except KeyboardInterrupt as error:
            # Told before the table is, which is to be the last thing seen.
            sys.excepthook(type(error), error, error.__traceback__)
            raise _Interrupted from None
        finally:
            with interrupts_held("the profile is being written"):
                controls.finish()
                finish(profiled, options, folder)
    return 0


def _prepared(options: argparse.Namespace, folder: str) -> tuple[ProgramProfile | TorchProfile, Any]:
    """What profiles the program, and what answers questions from outside meanwhile."""
    plan = Plan(options.wait, options.warmup, options.active, options.repeat)
    wanted = {name: getattr(options, flag) for flag, name in RECORDED.items()}
    wanted |= {"all_threads": options.all_threads}
    clean(folder)
    if options.clock == "cpu":
        tap.set_clock(time.process_time_ns)
    if options.torch is not None:
        theirs = TorchProfile(options.torch, plan, folder, step_on=options.step_on, script=script_of(options), **wanted)
        return theirs, TorchControl(options.torch, theirs)
    ours = ProgramProfile(
        plan,
        os.path.join(folder, SPOOL),
        script=script_of(options),
        step_on=options.step_on,
        with_modules=True,
        workers=options.all_threads,
        **wanted,
    )
    return ours, control


class _Terminated(SystemExit):
    """SIGTERM came, which a program unlike this one would not survive."""


@contextlib.contextmanager
def _unwound_by_sigterm() -> Iterator[None]:
    """Leave the program by an exception when SIGTERM comes, so that its profile can be kept; a second one kills."""

    def leave(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        raise _Terminated

    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    with guest_handler(leave):
        yield


class _Interrupted(SystemExit):
    """Ctrl-C has ended the program, which has told so."""


@contextlib.contextmanager
def _ended_by_its_signal() -> Iterator[None]:
    """Once all is written, let the signal do what it was sent for: whoever sent it sees that."""
    try:
        yield
    except (_Terminated, _Interrupted) as end:
        sys.stdout.flush()
        number = signal.SIGTERM if isinstance(end, _Terminated) else signal.SIGINT
        if number == signal.SIGINT:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        raise


def _wait_for_threads() -> None:
    """Python waits for these before it exits; what they do still belongs to the program."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()


def finish(profiled: ProgramProfile | TorchProfile, options: argparse.Namespace, folder: str) -> None:
    """Print the table, write the files, say where they are."""
    write_whatever_comes()
    with Working("working out the profile"):
        capture = profiled.finish()
    if capture is None:
        say(f"nothing was recorded: {_why_nothing(profiled, options)}")
        return
    try:
        _write(capture, options, folder)
        _say_where(capture, profiled, options, folder)
    except OSError as error:
        # The program's own end must not be hidden by this.
        say(f"cannot write into {folder}: {error.strerror or error}; `mindtorch recover` reads what the spool has")
    for note in capture.notes:
        say(f"note: {note}")
    with contextlib.suppress(BrokenPipeError):
        _show(capture, options)


def _say_where(
    capture: Capture, profiled: ProgramProfile | TorchProfile, options: argparse.Namespace, folder: str
) -> None:
    count = len(find_steps(Metrics(capture)).places)
    steps = (
        f" in {count} of {profiled.steps} steps" if profiled.steps > count else f" in {count} steps" if count else ""
    )
    events = sum(map(len, capture.tracks))
    if _has_ops(capture):
        say(f"recorded {events:,} events{steps}")
    else:
        say(f"nothing was recorded: {_why_nothing(profiled, options)}")
    last = (SPOOL, "spool") if options.torch is None else (WINDOWS, WINDOWS)
    for name, title in ((TRACE, "trace"), *([] if options.no_report else [(REPORT, "report")]), last):
        say(f"{title}: {os.path.relpath(os.path.join(folder, name))}")


def _has_ops(capture: Capture) -> bool:
    kinds = {kind for track in capture.tracks for kind in np.unique(track.kind).tolist()}
    return any(capture.kinds[kind].category == CPU_OP for kind in kinds)


def _why_nothing(profiled: ProgramProfile | TorchProfile, options: argparse.Namespace) -> str:
    """What to do about a profile without events."""
    if options.step_on and not profiled.steps:
        return f"the function {options.step_on} never returned; --step-on takes one that the program calls every step"
    if options.wait or options.warmup:
        return (
            f"the program made {profiled.steps} steps, --wait {options.wait} --warmup {options.warmup} asks for more; "
            "take fewer, or none"
        )
    elsewhere = "" if options.all_threads else "; --all-threads records other threads and forked workers too"
    return f"the program called no operator of torch on its main thread{elsewhere}"


def _show(capture: Capture, options: argparse.Namespace) -> None:
    rows = rows_of(capture)
    with_visible_names(rows)
    text = rows.table(sort_by=SORTS[options.sort], row_limit=options.limit)
    width = None if options.wide else width_of_terminal()
    if width is not None and len(text.partition("\n")[0].rstrip()) > width:
        rows.sort(key=lambda row: getattr(row, SORTS[options.sort]) or 0, reverse=options.sort != "name")
        text = narrow(rows, rows, width, options.limit)
    print(f"{text}Timed: {timed_in(capture)}" if rows else text, end="\n" if rows else "", flush=True)
    if _has_ops(capture):
        print(of_profile(capture), end="", flush=True)


def _write(capture: Capture, options: argparse.Namespace, folder: str) -> None:
    count = sum(map(len, capture.tracks))
    with Working(f"writing {count:,} events to {os.path.relpath(folder)}"):
        write_files(capture, folder, name_of(options), report=not options.no_report)
    sys.stdout.flush()
