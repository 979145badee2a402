"""The traces of units in FlyDSL, from the cache or of a compile."""

from __future__ import annotations

from collections.abc import Iterable

from octave_gen import settings
from octave_gen.build import failures, records, target
from octave_gen.build.cache import Cache
from octave_gen.build.flydsl import sources, tool
from octave_gen.build.flydsl.compile import compile_units, default_jobs
from octave_gen.build.locks import Progress
from octave_gen.build.target import Source
from octave_gen.errors import OctaveError
from octave_gen.plan import Unit


def traces(units: Iterable[Unit], progress: Progress) -> dict[str, str]:
    """The trace of each unit by its name; what is not in the cache is compiled, code object and all.

    Raises OctaveError for units that do not compile, and where flydsl is not installed.
    """
    flydsl = tool.find()
    store = Cache.of(settings.read(), progress)
    jobs = []
    for unit in units:
        text = sources.text(unit)
        source = Source(unit, text, tuple(records.unit_records(unit, text)))
        jobs.append(target.fly_job(source, flydsl))
    found = {job.name: store.get(job.trace_key) for job in jobs}
    missing = [job for job in jobs if found[job.name] is None]
    if missing:
        parallel = default_jobs()
        progress(f"{len(missing)} of {len(jobs)} units to trace, {parallel} at once (flydsl {flydsl.version})")
        with store.writing() as session:
            compiled = compile_units(
                missing, flydsl=flydsl, session=session, parallel=parallel, keep_going=True, progress=progress
            )
            found |= {job.name: store.get(job.trace_key) for job in missing}
        if compiled.failures:
            lines = [f"{failure.job.name}: {failures.first_error(failure)}" for failure in compiled.failures]
            hint = "`octave-gen build --keep-going` keeps their logs"
            raise OctaveError("\n  ".join(["units in FlyDSL do not compile:", *lines]), hint=hint)
    return {name: data.decode("ascii") for name, data in found.items() if data is not None}
