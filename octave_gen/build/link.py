"""The host half of a library, compiled by the system's C++ compiler on torch's stable ABI, and the link of the two."""

from __future__ import annotations

import hashlib
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from octave_gen import paths, settings
from octave_gen.build import cache, files, toolchain
from octave_gen.build.bundle import Kernel, index_text
from octave_gen.build.cache import Session
from octave_gen.errors import OctaveError

TORCH_TARGET = (2, 13, 0)
"""The version of torch whose stable ABI the libraries need at least."""

COMPILE_FLAGS: tuple[str, ...] = (
    *("-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror"),
    "-DTORCH_TARGET_VERSION=0x{:02x}{:02x}{:02x}0000000000".format(*TORCH_TARGET),
)
LINK_FLAGS: tuple[str, ...] = (
    *("-shared", "-s", "-Wl,--build-id=none", "-Wl,--no-undefined", "-Wl,-z,relro", "-Wl,-z,now"),
    *("-Wl,--as-needed", "-ltorch_cpu", "-lc10", "-ldl"),
)
"""Flags of every host half, without paths."""

_EXPORTS = "exports.map"
_EMBED = "embed.S"
_HINT = "install g++, or name a C++ compiler in CXX"


@dataclass(frozen=True)
class HostCompiler:
    """The system's C++ compiler: a program and the options that CXX gives it.

    identity: the options, and the full version text of compiler and linker.
    """

    command: tuple[str, ...]
    version: str
    identity: str

    @property
    def flags(self) -> tuple[str, ...]:
        """All flags of the host half, without paths of this project; the manifest shows them."""
        return (*self.command[1:], *COMPILE_FLAGS, *LINK_FLAGS)


@dataclass(frozen=True)
class Torch:
    """An installed torch, found without importing it."""

    version: str
    include: Path
    lib: Path


@dataclass(frozen=True)
class Library:
    """A linked library. ``namespace``: of its op, by the content of bundles and host sources."""

    data: bytes
    namespace: str


def find_compiler() -> HostCompiler:
    """The compiler that CXX names; raises OctaveError when it cannot be run or is no compiler."""
    program, *options = settings.read().host_command
    # It runs in other folders than this process.
    command = (str(Path(program).absolute()) if "/" in program else program, *options)
    text, linker = (_version([*command, option]) for option in ("--version", "-Wl,--version"))
    number = re.search(r"\d+(\.\d+)+", text.rpartition(")")[2] or text)
    version = f"{Path(text.split()[0]).name} {number[0] if number else text}"
    return HostCompiler(command, version, "; ".join((text, linker, shlex.join(options))))


def _version(command: Sequence[str]) -> str:
    text = toolchain.run(command, _HINT).partition("\n")[0].strip()
    if not text:
        raise OctaveError("the C++ compiler does not say its version", where=shlex.join(command), hint=_HINT)
    return text


def find_torch() -> Torch:
    """The installed torch; raises OctaveError when there is none, or none with the stable ABI that is needed."""
    needed = ".".join(map(str, TORCH_TARGET))
    hint = f"install torch {needed} or newer (its CPU build is enough)"
    spec = find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        raise OctaveError("torch is not installed", hint=hint)
    version = metadata.version("torch")
    if tuple(int(part) for part in re.findall(r"\d+", version)[:3]) < TORCH_TARGET:
        raise OctaveError(f"torch {version} is too old", hint=hint)
    folder = Path(spec.submodule_search_locations[0])
    if not (folder / "include" / "torch" / "csrc" / "stable" / "library.h").is_file():
        raise OctaveError("torch has no headers of its stable ABI", where=str(folder), hint=hint)
    return Torch(version, folder / "include", folder / "lib")


def host_sources() -> dict[str, bytes]:
    """The files of the host half by name."""
    folder = paths.templates() / "host"
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def host_key(compiler: HostCompiler, torch: Torch) -> str:
    """The cache key of what the host half is compiled from and with."""
    sources = {name: hashlib.sha256(data).hexdigest() for name, data in host_sources().items()}
    return cache.key("host", sources=sources, compiler=compiler.identity, torch=torch.version, flags=compiler.flags)


def namespace(bundles: bytes, kernels: Sequence[Kernel]) -> str:
    """The namespace of a library's op: of this content, and of no other."""
    digest = hashlib.sha256()
    for data in (bundles, index_text(kernels).encode(), *(data for _, data in sorted(host_sources().items()))):
        digest.update(len(data).to_bytes(8, "little") + data)
    return f"octave_host_{digest.hexdigest()[:16]}"


def link(
    bundles: bytes, kernels: Sequence[Kernel], *, arch: str, compiler: HostCompiler, torch: Torch, session: Session
) -> Library:
    """The shared object of one arch; raises OctaveError with what the compiler or linker printed."""
    scratch = session.scratch / f"link-{arch}"
    with files.explained("the compile cache cannot be written", scratch, "set OCTAVE_CACHE_DIR"):
        scratch.mkdir()
        sources = host_sources()
        for name, data in sources.items():
            (scratch / name).write_bytes(data)
        (scratch / "index.txt").write_text(index_text(kernels))
        (scratch / "bundles.bin").write_bytes(bundles)
    objects = []
    for name in sorted(sources):
        if name.endswith(".cpp"):
            objects.append(_host_object(name, compiler, torch, session, scratch))
    space = namespace(bundles, kernels)
    defined = [f'-DOCTAVE_NAMESPACE="{space}"', f'-DOCTAVE_ARCH="{arch}"']
    _make("embed.o", [*compiler.command, "-c", *defined, _EMBED], scratch, session)
    script = f"-Wl,--version-script={_EXPORTS}"
    command = [*compiler.command, *objects, "embed.o", script, f"-L{torch.lib}", *LINK_FLAGS]
    return Library(_make("library.so", command, scratch, session), space)


def _host_object(name: str, compiler: HostCompiler, torch: Torch, session: Session, scratch: Path) -> str:
    """Compiles one host source in ``scratch``, or takes it from the cache; the object's name."""
    made = f"{name}.o"
    key = cache.key("host object", host=host_key(compiler, torch), name=name)
    known = session.cache.get(key)
    if known is not None:
        (scratch / made).write_bytes(known)
        return made
    # The headers put their own path into error messages.
    mapped = (f"-ffile-prefix-map={torch.include}=torch", f"-ffile-prefix-map={scratch}=host")
    command = [*compiler.command, *COMPILE_FLAGS, *mapped, f"-isystem{torch.include}", "-c", name]
    session.put(key, _make(made, command, scratch, session))
    return made


def _make(made: str, command: Sequence[str], folder: Path, session: Session) -> bytes:
    """The content of the file ``made`` in ``folder``, which ``command`` writes there."""
    environment: Mapping[str, str] = settings.tool_environment() | {"TMPDIR": str(folder)}
    command = [*command, "-o", made]
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False, errors="replace"
        )
    except OSError as error:
        raise OctaveError(f"the C++ compiler cannot be run: {error.strerror}", where=command[0], hint=_HINT) from error
    if done.returncode:
        session.check_space([done.stderr or done.stdout])
        lines = (done.stderr or done.stdout).strip().splitlines()
        first = next((line for line in lines if "error" in line), lines[0] if lines else "no output")
        raise OctaveError(
            f"the host half does not compile: {first}",
            where=shlex.join(command),
            hint="the C++ compiler and torch must be able to build a torch extension; CXX names another compiler",
        )
    try:
        return (folder / made).read_bytes()
    except OSError as error:
        raise OctaveError(
            f"the C++ compiler says that all is well, but {made} cannot be read: {error.strerror}",
            where=shlex.join(command),
            hint=_HINT,
        ) from error
