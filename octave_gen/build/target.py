"""One arch of a build: the keys of what is made for it, and the folder that it goes to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from octave_gen import manifest
from octave_gen.build import cache, failures, files, link, locks
from octave_gen.build.cache import Cache, Session
from octave_gen.build.compile import Job
from octave_gen.build.flydsl import sources as fly_sources
from octave_gen.build.flydsl.compile import FlyJob
from octave_gen.build.flydsl.tool import FlyDSL
from octave_gen.build.toolchain import DeviceCompiler
from octave_gen.kernels.base import FLYDSL
from octave_gen.manifest import Record
from octave_gen.plan import Unit

_PACKAGE = Path(__file__).resolve().parent.parent
_OUT_HINT = "name a folder that can be written with --out"


@dataclass(frozen=True)
class Source:
    """A rendered unit. ``records``: of its variants, as far as they are known without a compiler."""

    unit: Unit
    text: str
    records: tuple[Record, ...]


@dataclass(frozen=True)
class Tools:
    """What a build works with. ``include``: the folder of the templates' headers; ``flydsl``: None where no unit is in
    FlyDSL."""

    device: DeviceCompiler
    host: link.HostCompiler
    torch: link.Torch
    include: Path
    flydsl: FlyDSL | None = None

    @cached_property
    def host_key(self) -> str:
        return link.host_key(self.host, self.torch)


def job(source: Source, device: DeviceCompiler, flydsl: FlyDSL | None) -> Job:
    """The compile of a unit; its key names all that decides the bytes of its code object."""
    if source.unit.language == FLYDSL:
        assert flydsl is not None
        return fly_job(source, flydsl)
    return Job(source.unit.name, source.text, source.unit.first.arch.name, _key("code object", source, device.identity))


def fly_job(source: Source, flydsl: FlyDSL) -> FlyJob:
    """The compile of a unit in FlyDSL."""
    unit = source.unit
    keys = {kind: _key(kind, source, flydsl.identity) for kind in ("code object", "trace")}
    return FlyJob(
        unit.name,
        source.text,
        unit.first.arch.name,
        keys["code object"],
        request=fly_sources.job(unit),
        sources=fly_sources.files(unit),
        trace_key=keys["trace"],
    )


def _key(kind: str, source: Source, compiler: str) -> str:
    return cache.key(
        kind,
        source=hashlib.sha256(source.text.encode()).hexdigest(),
        templates=source.records[0]["templates"],
        flags=source.records[0]["flags"],
        compiler=compiler,
    )


@dataclass(frozen=True)
class BuiltLibrary:
    """A library in its folder. ``compiled``: units that were compiled for it; the others came from the cache.
    ``unchanged``: the folder held this very library and manifest already."""

    arch: str
    library: Path
    manifest: Path
    variants: int
    compiled: int
    unchanged: bool


@dataclass(frozen=True)
class Made:
    """A library and its manifest's text, not yet in their folder."""

    library: bytes
    manifest: str


@dataclass(frozen=True)
class Target:
    """One arch of a build. ``folder``: ``<out>/<arch>``; ``sources``: in the order of the plan."""

    arch: str
    folder: Path
    sources: tuple[Source, ...]
    tools: Tools

    @property
    def records(self) -> list[Record]:
        return [record for source in self.sources for record in source.records]

    @property
    def failed(self) -> Path:
        """The folder for what is kept of units that fail."""
        return self.folder / failures.FOLDER

    @cached_property
    def jobs(self) -> tuple[Job, ...]:
        """The units to compile; the key of each names all that decides the bytes of its code object."""
        return tuple(job(source, self.tools.device, self.tools.flydsl) for source in self.sources)

    @cached_property
    def _key(self) -> dict[str, str]:
        """The cache keys of library and manifest, by all that decides them."""
        parts = {
            "units": [job.key for job in self.jobs],
            "records": self.records,
            "compiler": [self.tools.device.name, self.tools.device.version],
            "flydsl": [self.tools.flydsl.identity] if self.tools.flydsl else [],
            "host": self.tools.host_key,
            "builder": _builder_identity(),
        }
        return {kind: cache.key(kind, **parts) for kind in ("library", "manifest")}

    def in_place(self, store: Cache) -> BuiltLibrary | None:
        """The library in the folder, when it and its manifest are, byte for byte, what this build would write."""
        wanted, path = store.get(self._key["manifest"]), self.folder / manifest.FILE_NAME
        try:
            if wanted is None or path.read_bytes() != wanted:
                return None
            described = json.loads(wanted)["library"]
            found = hashlib.sha256((self.folder / described["file"]).read_bytes()).hexdigest()
        except OSError:
            return None
        if found != described["sha256"]:
            return None
        return BuiltLibrary(self.arch, self.folder / described["file"], path, len(self.records), 0, True)

    def cached(self, store: Cache) -> Made | None:
        """What an earlier build made for this arch, wherever it put it."""
        library, text = (store.get(self._key[kind]) for kind in ("library", "manifest"))
        return None if library is None or text is None else Made(library, text.decode("ascii"))

    def keep(self, made: Made, session: Session) -> None:
        """Stores what was made, for the next build of the same."""
        session.put(self._key["library"], made.library)
        session.put(self._key["manifest"], made.manifest.encode("ascii"))

    @contextmanager
    def locked(self, store: Cache) -> Iterator[None]:
        """Holds the folder's lock, and removes what earlier builds left of themselves there."""
        with ExitStack() as stack:
            with files.explained("the output folder cannot be written", self.folder, _OUT_HINT):
                self.folder.mkdir(parents=True, exist_ok=True)
                lock = self.folder / ".lock"
                stack.enter_context(locks.held(lock, timeout=store.lock_timeout, progress=store.progress))
                files.sweep(self.folder)
                failures.clear(self.failed)
            yield

    def write(self, made: Made, compiled: int) -> BuiltLibrary:
        """Puts library and manifest into the folder, then removes libraries that its manifest no longer names."""
        library, path = self.folder / file_name(self.arch, made.library), self.folder / manifest.FILE_NAME
        with files.explained("the library cannot be written", self.folder, _OUT_HINT):
            replaced = library.exists()
            try:
                files.write_atomically(library, made.library)
                files.write_atomically(path, made.manifest.encode("ascii"))
            except BaseException:
                if not replaced:
                    library.unlink(missing_ok=True)
                raise
            for other in self.folder.glob(f"liboctave_{self.arch}-*.so"):
                if other != library:
                    other.unlink()
        return BuiltLibrary(self.arch, library, path, len(self.records), compiled, False)


def file_name(arch: str, library: bytes) -> str:
    """The name of a library's file: a library with other content has another name."""
    return f"liboctave_{arch}-{hashlib.sha256(library).hexdigest()[:16]}.so"


def _builder_identity() -> str:
    """sha256 of the modules that turn code objects into a library and a manifest."""
    digest = hashlib.sha256()
    rooms = [path for room in ("arch", "build", "build/flydsl", "manifest") for path in (_PACKAGE / room).iterdir()]
    for path in sorted(rooms):
        if path.suffix in (".py", ".json"):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
