"""From planned variants to one shared object and one manifest per arch."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from octave_gen import plan, settings
from octave_gen.build import assemble, failures, files, link, records, render, replaced, toolchain
from octave_gen.build import compile as compiling
from octave_gen.build.cache import Cache, Session
from octave_gen.build.compile import Compiled
from octave_gen.build.flydsl import compile as fly
from octave_gen.build.flydsl import left_out, tool
from octave_gen.build.flydsl.compile import FlyJob
from octave_gen.build.locks import Progress
from octave_gen.build.replaced import counted
from octave_gen.build.target import BuiltLibrary, Made, Source, Target, Tools
from octave_gen.errors import OctaveError, wrong_request
from octave_gen.kernels.base import FLYDSL
from octave_gen.plan import Variant

__all__ = ["BuiltLibrary", "Source", "Target", "Tools", "build", "build_targets", "by_arch", "targets"]


def build(
    planned: Sequence[Variant],
    *,
    out: Path,
    compiler: str = "ziglang",
    jobs: int | None = None,
    keep_going: bool = False,
    progress: Progress,
) -> list[BuiltLibrary]:
    """Builds ``<out>/<arch>/liboctave_<arch>-<hash>.so`` and ``manifest.json`` for every arch of ``planned``.

    jobs: compiles at once (None: as many as cores and memory allow). keep_going: after a failed compile go on with all
    the rest. An arch is written when all of its units compiled and passed the resource gate; ``progress`` takes the
    lines for stderr. Raises OctaveError with every failure in one report, for a tool that is missing, and for a part of
    the shipped variants that would replace a larger library in the default folder.
    """
    wanted = targets(left_out.without(planned, progress), out=out, compiler=compiler)
    return build_targets(wanted, jobs=jobs, keep_going=keep_going, progress=progress)


def targets(planned: Sequence[Variant], *, out: Path, compiler: str) -> list[Target]:
    """What :func:`build` makes, by arch: the units rendered and their keys. Raises OctaveError for a missing tool, and
    for what :func:`replaced.refuse_loss` refuses."""
    units = plan.units(planned)
    flydsl = tool.find() if any(unit.language == FLYDSL for unit in units) else None
    tools = Tools(toolchain.find(compiler), link.find_compiler(), link.find_torch(), render.include_dir(), flydsl)
    sources = []
    for unit in units:
        text = render.render_unit(unit)
        sources.append(Source(unit, text, tuple(records.unit_records(unit, text))))
    wanted = by_arch(sources, tools, out)
    replaced.refuse_loss(wanted, out)
    return wanted


def by_arch(sources: Sequence[Source], tools: Tools, out: Path) -> list[Target]:
    """One target for each arch of ``sources``, sorted."""
    groups: dict[str, list[Source]] = {}
    for source in sources:
        groups.setdefault(source.unit.first.arch.name, []).append(source)
    return [Target(arch, out / arch, tuple(group), tools) for arch, group in sorted(groups.items())]


def build_targets(
    wanted: Sequence[Target], *, jobs: int | None, keep_going: bool, progress: Progress
) -> list[BuiltLibrary]:
    """:func:`build` for targets, sorted by arch, that were made before."""
    if not wanted:
        raise wrong_request("there is nothing to build", where="build")
    if jobs is not None and jobs < 1:
        raise wrong_request(f"a build needs at least 1 job, not {jobs}", where="jobs")
    store = Cache.of(settings.read(), progress)
    done = {target.arch: target.in_place(store) for target in wanted}
    with ExitStack() as locked:
        rest = [target for target in wanted if done[target.arch] is None]
        for target in rest:  # sorted, and before the cache's lock, so that no two builds wait for each other
            locked.enter_context(target.locked(store))
        fresh = {built.arch: built for built in _make(rest, store, jobs, keep_going, progress)}
    built = [done[target.arch] or fresh[target.arch] for target in wanted]
    for library in built:
        units = f"{counted(library.compiled, 'unit')} compiled"
        progress(f"{library.arch}: {'up to date' if library.unchanged else f'built, {units}'}: {library.library}")
    return built


def _make(
    wanted: Sequence[Target], store: Cache, jobs: int | None, keep_going: bool, progress: Progress
) -> list[BuiltLibrary]:
    known = {target.arch: target.cached(store) for target in wanted}
    built = [_written(target, made, 0, progress) for target in wanted if (made := known[target.arch]) is not None]
    rest = [target for target in wanted if known[target.arch] is None]
    if not rest:
        return built
    problems: list[str] = []
    with store.writing() as session:
        objects, compiled = _code_objects(rest, session, jobs, keep_going, progress)
        for target in rest:
            problems += _kept_failures(target, compiled)
        if problems and not keep_going:
            raise _failed(problems)
        for target in rest:
            own = {job.name: objects[job.name] for job in target.jobs if job.name in objects}
            verdict = assemble.gate(target, own)
            problems += verdict.problems
            if not verdict.problems and len(own) == len(target.jobs):
                progress(f"{target.arch}: linking {counted(len(own), 'code object')}")
                made = assemble.assemble(target, own, verdict.resources, session)
                target.keep(made, session)
                built.append(_written(target, made, sum(name in compiled.code_objects for name in own), progress))
    if problems:
        raise _failed(problems)
    return built


def _written(target: Target, made: Made, compiled: int, progress: Progress) -> BuiltLibrary:
    line = replaced.note(target)
    if line:
        progress(line)
    return target.write(made, compiled)


def _code_objects(
    wanted: Sequence[Target], session: Session, jobs: int | None, keep_going: bool, progress: Progress
) -> tuple[dict[str, bytes], Compiled]:
    """The code objects by unit, of the cache and of this build's compiler, and what the compiler did."""
    known: dict[str, bytes] = {}
    missing = []
    for job in (job for target in wanted for job in target.jobs):
        data = session.cache.get(job.key)
        if data is None:
            missing.append(job)
        else:
            known[job.name] = data
    tools = wanted[0].tools
    in_flydsl = [job for job in missing if isinstance(job, FlyJob)]
    in_hip = [job for job in missing if not isinstance(job, FlyJob)]
    if missing:
        versions = [tools.device.version] if in_hip else []
        versions += [f"flydsl {tools.flydsl.version}"] if in_flydsl and tools.flydsl else []
        at_once = jobs or (compiling.default_jobs() if in_hip else fly.default_jobs())
        progress(
            f"{counted(len(known) + len(missing), 'unit')}: {len(known)} in the cache, {len(missing)} to compile, "
            f"{at_once} at once ({', '.join(versions)})"
        )
    compiled = compiling.compile_units(
        in_hip,
        compiler=tools.device,
        include=tools.include,
        session=session,
        parallel=jobs or compiling.default_jobs(),
        keep_going=keep_going,
        progress=progress,
    )
    if in_flydsl and (keep_going or not compiled.failures):
        assert tools.flydsl is not None
        compiled += fly.compile_units(
            in_flydsl,
            flydsl=tools.flydsl,
            session=session,
            parallel=jobs or fly.default_jobs(),
            keep_going=keep_going,
            progress=progress,
        )
    return known | compiled.code_objects, compiled


def _kept_failures(target: Target, compiled: Compiled) -> list[str]:
    with files.explained("the log of a failed compile cannot be kept", target.failed, "name another folder with --out"):
        return [
            failures.keep_failure(
                target.failed, failure, target.tools.device, target.tools.include, target.tools.flydsl
            )
            for failure in compiled.failures
            if failure.job.arch == target.arch
        ]


def _failed(problems: list[str]) -> OctaveError:
    return OctaveError(
        f"the build failed with {counted(len(problems), 'problem')}:\n  " + "\n  ".join(problems),
        hint=f"sources and logs are kept in <out>/<arch>/{failures.FOLDER}",
    )
