"""Options that several commands share, and the plan that they choose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from octave_gen.plan import Variant

Function = TypeVar("Function", bound=Callable[..., Any])


def _complete_arch(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from octave_gen.arch import ARCHS

    return [CompletionItem(name) for name in ARCHS if name.startswith(incomplete)]


def complete_variant(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of the shipped variants that begin with ``incomplete``."""
    from octave_gen import plan, spec

    names = (variant.name for variant in plan.variants(spec.shipped()))
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


arch_option = click.option(
    "--arch",
    "archs",
    multiple=True,
    metavar="ARCH",
    shell_complete=_complete_arch,
    help="Only for this chip, such as gfx942; repeatable. Default: every chip that the specs name.",
)
filter_option = click.option(
    "--filter", "pattern", metavar="GLOB", help="Only variants whose name matches, such as 'decode_*_g6_*'."
)
spec_option = click.option(
    "--spec",
    "spec_files",
    multiple=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="A spec to use instead of the shipped ones; repeatable.",
)
out_option = click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of built libraries. Default: build/ in a checkout, else a folder of the user's cache.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def dry_run_option(text: str) -> Callable[[Function], Function]:
    """``--dry-run`` with ``text`` as its help."""
    return click.option("--dry-run", is_flag=True, help=text)


def say(line: str) -> None:
    """Progress: to stderr."""
    click.echo(line, err=True)


def counted(number: int, thing: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


@dataclass(frozen=True)
class Chosen:
    """The plan of the specs and archs, and what the filter leaves of it."""

    planned: list[Variant]
    selected: list[Variant]


def choose(spec_files: Sequence[Path], archs: Sequence[str], pattern: str | None) -> Chosen:
    """The plan that the shared options ask for; raises OctaveError when they ask for nothing that exists."""
    from octave_gen import plan, spec

    specs = spec.load_all(spec_files) or spec.shipped()
    planned = plan.variants(specs, archs)
    return Chosen(planned, plan.select(planned, pattern))
