"""The group of commands: each is imported when it is asked for, and every error ends here."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import click

from octave_gen import __version__
from octave_gen.errors import WORK_FAILED, OctaveError, did_you_mean

PROGRAM: Final = "octave-gen"
INTERRUPTED: Final = 130
COMMANDS: Final = (
    "build",
    "verify",
    "list-variants",
    "show",
    "profile",
    "quality",
    "generate",
    "check",
    "doctor",
    "clean",
)


class LazyGroup(click.Group):
    """Finds a command in the module of its name, and turns :class:`OctaveError` into a message and an exit code."""

    def main(self, *args: Any, **extra: Any) -> Any:
        try:
            return super().main(*args, **extra)
        except OSError as error:
            click.echo(f"error: {_told(error)}", err=True)
            sys.exit(WORK_FAILED)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"octave_gen.cli.{cmd_name.replace('-', '_')}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        if word not in COMMANDS and not word.startswith("-") and not ctx.resilient_parsing:
            longer = [name for name in COMMANDS if name.startswith(word)]
            near = f" (did you mean {', '.join(longer)}?)" if longer else did_you_mean(word, COMMANDS)
            ctx.fail(f"No such command {word!r}{near}.")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except OctaveError as error:
            click.echo(f"error: {error}", err=True)
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED)


def _told(error: OSError) -> OctaveError:
    """What no command foresaw: standard output or the current folder, if it is one of them, else the error's file."""
    try:
        print(end="", flush=True)
    except OSError as problem:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains again when it ends
        return OctaveError(f"standard output cannot be written: {problem.strerror}")
    try:
        Path.cwd()
    except FileNotFoundError:
        return OctaveError("the current folder does not exist any more", hint="change into one that does")
    return OctaveError(error.strerror or str(error), where=None if error.filename is None else str(error.filename))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name=PROGRAM)
def group() -> None:
    """GPU kernels that read 3-4 bit KV caches in place: from declarative specs to a shared object for torch.

    Exit codes: 0 done; 1 the work failed, or `check` or `doctor` found something; 2 the request cannot be met; 130
    interrupted.
    """


def main() -> None:
    """Runs the command line of this process."""
    group(prog_name=PROGRAM)
