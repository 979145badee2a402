"""Compiles one unit in this process; ``python -m octave_gen.build.flydsl.unit JOB.json`` does it by hand.

Needs the environment of :func:`octave_gen.build.flydsl.tool.environment`. Writes ``<name>.hsaco`` and ``<name>.trace``
into the current folder. Only processes of :mod:`octave_gen.build.flydsl.tool` import this module: it imports flydsl.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from octave_gen import formats
from octave_gen.build.flydsl import tool, trace
from octave_gen.formats.base import Layout
from octave_gen.kernels.flydsl import unstable
from octave_gen.kernels.flydsl.request import Request

_POINTEES = {
    "uint8_t": fx.Uint8,
    "int32_t": fx.Int32,
    "uint32_t": fx.Uint32,
    "float": fx.Float32,
    "f16": fx.Float16,
    "bf16": fx.BFloat16,
}
_VALUES = {"int32_t": fx.Int32, "int64_t": fx.Int64, "float": fx.Float32}


def compile_unit(job: dict[str, Any]) -> None:
    """Compiles the unit of a job of :mod:`octave_gen.build.flydsl.sources`; raises what flydsl and its module raise."""
    arch, name = job["arch"], job["name"]
    target = flyc.get_backend().target.arch
    if arch not in tool.ARCHS or target != arch:
        raise ValueError(f"flydsl compiles for {target}, the unit is for {arch}; known: {', '.join(tool.ARCHS)}")
    module = _module(job["module"], Path(job["file"]))
    requests = [_request(job, kernel) for kernel in job["kernels"]]
    kernels = [
        unstable.Entry(module.make(request), request.threads, request.waves_per_simd, _parameters(job, request.scalar))
        for request in requests
    ]
    made = unstable.compile_kernels(kernels)
    Path(f"{name}.hsaco").write_bytes(made.code_object)
    Path(f"{name}.trace").write_text(trace.text(made.traced), encoding="ascii")


def _module(name: str, file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _request(job: dict[str, Any], kernel: dict[str, Any]) -> Request:
    return Request(arch=job["arch"], layout=_layout(job), head_size=job["head_size"], config=job["config"], **kernel)


def _layout(job: dict[str, Any]) -> Layout | None:
    if job["cache_dtype"] is None:
        return None
    dtype = formats.cache_dtype(job["cache_dtype"])
    return formats.FAMILIES[dtype.family].layout(dtype, job["head_size"], job["rotary_dims"])


def _parameters(job: dict[str, Any], scalar: str) -> list[Any]:
    """The type of each parameter, in a list where it is a pointer to such."""
    types: list[Any] = []
    for c_type in job["parameters"]:
        words = c_type.replace("*", " *").split()
        if words[-1] == "*":
            types.append([_POINTEES[scalar if words[-2] == "Scalar" else words[-2]]])
        else:
            types.append(_VALUES[c_type])
    return types


if __name__ == "__main__":
    compile_unit(json.loads(Path(sys.argv[1]).read_text()))
