"""Samples from files: npz or safetensors with ``layers.<n>.q``, ``.k`` and ``.v``.

Shapes and dtypes are those of a `Sample`. ``sm_scale`` (default: head_size ** -0.5) and ``window`` (default: none) may
be given for all layers, or as ``layers.<n>.sm_scale`` and ``layers.<n>.window`` for one: in the metadata of a
safetensors file, as arrays of one number in an npz file. Anything else in a file is left alone.
"""

from __future__ import annotations

import lzma
import math
import re
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
import safetensors
import torch
from safetensors import safe_open
from torch import Tensor

from octave_gen.errors import OctaveError, wrong_request
from octave_gen.quality.sample import DataSet, Sample

PARTS: Final = ("q", "k", "v")
HINT: Final = "a file of samples holds layers.<n>.q, .k and .v for each layer n, as npz or safetensors"
_DAMAGED: Final = (
    *(ValueError, TypeError, RuntimeError, EOFError, MemoryError, ArithmeticError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, safetensors.SafetensorError),
)
"""What numpy and safetensors raise for bytes that they do not understand."""
_KEY: Final = re.compile(r"layers\.(0|[1-9]\d{0,5})\.([qkv])")
_NUMBER: Final = re.compile(r"(layers\.(0|[1-9]\d{0,5})\.)?(sm_scale|window)")


def read(path: Path) -> DataSet:
    """The layers of a file, by number; OctaveError for one that cannot be read or holds no samples that fit."""
    readers = {".npz": _npz, ".safetensors": _safetensors}
    if path.suffix not in readers:
        raise wrong_request("is named neither .npz nor .safetensors", where=str(path), hint=HINT)
    try:
        tensors, numbers = readers[path.suffix](path)
    except OSError as error:
        raise wrong_request(f"cannot be read: {error.strerror or error}", where=str(path), hint=HINT) from error
    except _DAMAGED as error:
        kind = path.suffix.removeprefix(".")
        raise wrong_request(f"is no {kind} file of plain numbers: {error}", where=str(path), hint=HINT) from error
    layers = sorted({int(match[1]) for key in tensors if (match := _KEY.fullmatch(key))})
    if not layers:
        raise wrong_request("holds no layers.<n>.q, .k and .v", where=str(path), hint=HINT)
    samples = [_sample(path, layer, tensors, numbers) for layer in layers]
    sizes = {sample.head_size: sample.name for sample in samples}
    if len(sizes) > 1:
        held = " and ".join(f"{size} in {name}" for size, name in sorted(sizes.items()))
        hint = "write layers of different heads to different files"
        raise wrong_request(f"holds layers of several head sizes: {held}", where=str(path), hint=hint)
    return DataSet(str(path), (f"layers {', '.join(map(str, layers))}",), samples)


def _sample(path: Path, layer: int, tensors: Mapping[str, Tensor], numbers: Mapping[str, float]) -> Sample:
    where, prefix = f"{path}, layer {layer}", f"layers.{layer}."
    missing = [f"{prefix}{part}" for part in PARTS if f"{prefix}{part}" not in tensors]
    if missing:
        raise wrong_request(f"{' and '.join(missing)} missing", where=where, hint=HINT)
    query, key, value = (tensors[f"{prefix}{part}"] for part in PARTS)

    def number(name: str) -> float | None:
        return numbers.get(prefix + name, numbers.get(name))

    head_size = key.shape[-1] if key.dim() else 1
    sm_scale, window = number("sm_scale"), number("window")
    if sm_scale is not None and not (math.isfinite(sm_scale) and sm_scale > 0):
        raise wrong_request(f"sm_scale is {sm_scale}", where=where, hint="it is a positive number")
    if window is not None and not (math.isfinite(window) and window == int(window) > 0):
        raise wrong_request(f"window is {window}", where=where, hint="it is a number of tokens, a query's own included")
    try:
        return Sample(
            f"layer {layer}",
            query,
            key,
            value,
            sm_scale=max(head_size, 1) ** -0.5 if sm_scale is None else sm_scale,
            window=None if window is None else int(window),
            layer=layer,
        )
    except OctaveError as error:
        raise wrong_request(error.what, where=where, hint=error.hint) from error


def _npz(path: Path) -> tuple[dict[str, Tensor], dict[str, float]]:
    with path.open("rb") as file:
        loaded = np.load(file, allow_pickle=False)
        if not isinstance(loaded, np.lib.npyio.NpzFile):
            raise ValueError("it holds a single array")
        tensors = {key: torch.from_numpy(loaded[key]) for key in loaded.files if _KEY.fullmatch(key)}
        return tensors, {key: float(loaded[key].item()) for key in loaded.files if _NUMBER.fullmatch(key)}


def _safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, float]]:
    with safe_open(path, framework="pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys() if _KEY.fullmatch(key)}  # noqa: SIM118
        metadata = file.metadata() or {}
    return tensors, {key: float(text) for key, text in metadata.items() if _NUMBER.fullmatch(key)}
