"""``octave-gen verify``."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import click

from octave_gen import paths
from octave_gen.cli.options import built_arch_option, choose, filter_option, json_option, out_option
from octave_gen.errors import WORK_FAILED
from octave_gen.verify import record

EXECUTORS = (record.INTERPRETER, record.GPU)
LARGEST_SEED = 2**31 - 1


@click.command(short_help="Run built kernels and compare them with the reference.")
@built_arch_option
@filter_option
@click.option(
    "--spec",
    "spec_files",
    multiple=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Only what this spec asks for; repeatable. Default: all that is built.",
)
@out_option
@click.option("--quick", is_flag=True, help="One to three launches of every variant instead of all cases.")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Processes. Default: one for each core.")
@click.option("--seed", type=click.IntRange(0, LARGEST_SEED), metavar="N", help="For the inputs. Default: a new one.")
@click.option("--case", "case_text", metavar="CASE", help="Only this case, as a failure prints it; not recorded.")
@click.option("--again", is_flag=True, help="Run also what passed before and is unchanged.")
@click.option(
    "--executor", type=click.Choice(EXECUTORS), default=EXECUTORS[0], show_default=True, help="What runs the kernels."
)
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    archs: tuple[str, ...],
    pattern: str | None,
    spec_files: tuple[Path, ...],
    out: Path | None,
    quick: bool,
    jobs: int | None,
    seed: int | None,
    case_text: str | None,
    again: bool,
    executor: str,
    as_json: bool,
) -> None:
    """Run the kernels of built libraries and compare their results with the reference.

    The interpreter executes the code objects on the CPU; that says nothing about a chip. On a machine with one, the
    executor gpu runs the same cases there. Inputs are random and edge values; the results go to verification.json
    beside the library's manifest, by code object, and a code object that passed is not run again.

    A failure prints the smallest case found that fails and the command that repeats it; exit code 1.
    """
    from octave_gen import manifest
    from octave_gen.verify import built, report, session

    def progress(line: str) -> None:
        click.echo(line, err=True)

    folder = out or paths.default_out()
    libraries = [built.read(folder, arch) for arch in archs or built.built_archs(folder)]
    planned = choose(spec_files, archs, None).planned if spec_files else None
    names = built.choose(libraries, pattern, planned)
    request = session.Request(
        level=session.QUICK if quick else session.FULL,
        seed=secrets.randbelow(LARGEST_SEED) if seed is None else seed,
        executor=executor,
        case=session.case_for(names, case_text) if case_text is not None else None,
        again=again,
    )
    progress(f"seed {request.seed}")
    cores = len(os.sched_getaffinity(0))
    verdicts = session.verify(libraries, names, request, jobs=jobs or cores, progress=progress)
    if as_json:
        click.echo(manifest.dump(report.data(verdicts)), nl=False)
    else:
        for line in (*report.failures(verdicts, out), *report.table(verdicts)):
            click.echo(line)
    progress(report.summary(verdicts))
    if not all(verdict.passed for verdict in verdicts):
        ctx.exit(WORK_FAILED)
