"""``octave_gen.load``: verifies a built library against its manifest, then lets torch load it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from octave_gen import arch as archs
from octave_gen import manifest, paths
from octave_gen.errors import OctaveError, wrong_request
from octave_gen.runtime.dispatch import REGISTRY
from octave_gen.runtime.gpu import arch_of_device
from octave_gen.runtime.integrity import check_library, check_torch
from octave_gen.runtime.library import Library, variants_of
from octave_gen.runtime.registration import register

HOST_SCHEMA = "launch(Tensor kernargs, str symbol, int[] grid, int threads, int stream) -> ()"
"""The op by which a library launches its kernels: kernargs is a CPU uint8 tensor, stream a raw hipStream_t."""

_NAME_IT = f"name the arch: octave_gen.load({next(iter(archs.ARCHS))!r})"

_lock = threading.Lock()
_schemas: dict[str, torch.library.Library] = {}


def load(arch: str | None = None, *, out: str | Path | None = None) -> Library:
    """Loads the library of ``arch`` from ``out``, so that ``torch.ops.octave`` finds its kernels.

    arch: such as ``gfx942``; None: the current device's. out: the folder that ``octave-gen build --out`` wrote; None:
    its default. The same library, from whatever path, is loaded once; where two libraries hold the same variant, the
    one loaded last serves it. Raises OctaveError, with nothing loaded, for a missing, damaged or foreign file and for a
    torch that is too old.
    """
    if arch is None:
        arch = _current_arch()
    if not isinstance(arch, str):
        raise wrong_request(f"{arch!r} is no name of an arch", where="octave_gen.load", hint=_NAME_IT)
    archs.get(arch)
    folder = paths.default_out() if out is None else Path(out)
    rebuild = archs.build_command(arch) + ("" if out is None else f" --out {out}")
    built, path = _verified(folder, arch, rebuild)
    with _lock:
        register()
        known = REGISTRY.library(built["library"]["namespace"])
        if known is None:
            known = Library(arch, path, built, built["library"]["namespace"], variants_of(built))
            _open(known, rebuild)
            REGISTRY.add(known)
    return known


def _current_arch() -> str:
    if not torch.cuda.is_available():
        raise wrong_request(
            "there is no GPU whose arch could be taken",
            where="octave_gen.load",
            hint=_NAME_IT,
        )
    return arch_of_device(torch.cuda.current_device())


def _verified(out: Path, arch: str, rebuild: str) -> tuple[Mapping[str, Any], Path]:
    """The manifest of the library for ``arch`` in ``out``, and the path of the library that it describes."""
    built = manifest.read_built(out, arch)
    if built is None:
        where = str(out / arch / manifest.FILE_NAME)
        raise OctaveError(f"there is no library for {arch}", where=where, hint=f"build it: {rebuild}")
    described = built["library"]
    path = out / arch / described["file"]
    check_library(path, described, rebuild)
    if f"{described['namespace']}\0".encode() not in path.read_bytes():
        # What torch has loaded stays: a later load of the same file under its true namespace would implement it twice.
        raise OctaveError(
            f"the library brings no {described['namespace']}::launch, which its manifest names",
            where=str(path),
            hint=f"build it again: {rebuild}",
        )
    check_torch(torch.__version__, built["torch"]["target"], rebuild, str(path))
    return built, path


def _open(library: Library, rebuild: str) -> None:
    """Defines the schema of the library's op, then loads its implementation; undoes the first if the second fails.

    The library itself must not define it: a second definition from C++ ends the process.
    """
    operator = f"{library.namespace}::launch"
    if torch._C._dispatch_has_kernel(operator):
        return
    schema = torch.library.Library(library.namespace, "FRAGMENT")  # type: ignore[no-untyped-call]
    schema.define(HOST_SCHEMA)  # type: ignore[no-untyped-call]
    problem = None
    try:
        torch.ops.load_library(str(library.path))  # type: ignore[no-untyped-call]
    except (OSError, RuntimeError) as error:
        problem = f"torch cannot load the library: {error}"
    else:
        if not torch._C._dispatch_has_kernel_for_dispatch_key(operator, "CPU"):
            problem = f"the library brings no {operator}"
    if problem:
        schema._destroy()  # type: ignore[no-untyped-call]
        raise OctaveError(problem, where=str(library.path), hint=f"build it again: {rebuild}")
    _schemas[library.namespace] = schema
