"""Centres of a model's layers in a safetensors file: ``layers.<n>.k_center``, fp32 [kv_heads, head_size].

The file's metadata is one entry, ``k_center``: JSON of format, version and layers, which has for each <n> what its
centre rests on (head_size, rotary_dims, inv_freq, layout, max_position, tokens). Equal centres are equal bytes, so that
a hash of the file may name them: entries of their own would be written in any order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from octave_gen.build.files import explained, write_atomically
from octave_gen.centring.calibration import Center
from octave_gen.centring.rotary import Rotary
from octave_gen.errors import OctaveError

FORMAT: Final = "octave-gen k_center"
VERSION: Final = 1
KEY_DTYPES: Final = (torch.float16, torch.bfloat16)
_NAME = re.compile(r"layers\.(0|[1-9][0-9]{0,5})\.k_center")
_COUNTS = ("head_size", "rotary_dims", "max_position", "tokens")
_HINT = "write it with octave_gen.centring.save"


def save(path: Path, centers: Mapping[int, Center]) -> None:
    """Writes the centres by layer; the file is either whole or not there. OctaveError for what `load` would refuse."""
    from safetensors.torch import save as to_bytes

    ordered = dict(sorted(centers.items()))
    tensors = {f"layers.{layer}.k_center": center.k_center.contiguous() for layer, center in ordered.items()}
    origins = {str(layer): _origin(center) for layer, center in ordered.items()}
    _check(path, tensors, origins)
    metadata = json.dumps({"format": FORMAT, "version": VERSION, "layers": origins})
    with explained("the centres cannot be written", path, "choose another file"):
        write_atomically(path, to_bytes(tensors, {"k_center": metadata}))


def load(path: Path) -> dict[int, Tensor]:
    """k_center of each layer, fp32 [kv_heads, head_size], by ascending layer.

    OctaveError for a file that `save` would not have written: other keys, dtypes or shapes, values that are not
    finite, metadata that is missing or does not fit its tensor.
    """
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise OctaveError("there is no such file", where=str(path), hint=_HINT)
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise OctaveError(f"no safetensors file that can be read: {error}", where=str(path), hint=_HINT) from error
    return dict(sorted(_check(path, tensors, _origins(path, metadata)).items()))


def as_key(k_center: Tensor, dtype: torch.dtype) -> Tensor:
    """k_center as cache_store and rotate take it: dense, in the dtype of key, rounded to nearest even.

    OctaveError where a value is beyond the dtype's range: nothing saturates.
    """
    if dtype not in KEY_DTYPES:
        raise OctaveError(f"keys of {dtype} have no kernels", hint="torch.float16 or torch.bfloat16")
    rounded = k_center.to(dtype).contiguous()
    if not bool(torch.isfinite(rounded).all()):
        largest = float(k_center.abs().max())
        raise OctaveError(f"k_center has a value of {largest:g}, beyond {dtype}", hint="its keys do not fit either")
    return rounded


def _origin(center: Center) -> dict[str, Any]:
    return {
        "head_size": center.head_size,
        "rotary_dims": center.rotary.rotary_dims,
        "inv_freq": center.rotary.inv_freq,
        "layout": center.rotary.layout,
        "max_position": center.max_position,
        "tokens": center.tokens,
    }


def _origins(path: Path, metadata: Mapping[str, str]) -> dict[str, Any]:
    """The metadata of the layers by their numbers."""
    try:
        found = json.loads(metadata["k_center"])
        kind, layers = (found["format"], found["version"]), found["layers"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise OctaveError("its metadata is not that of centres", where=str(path), hint=_HINT) from error
    if kind != (FORMAT, VERSION) or len(found) != 3 or len(metadata) != 1 or not isinstance(layers, dict):
        raise OctaveError(f"its metadata says {kind}, not {(FORMAT, VERSION)} alone", where=str(path), hint=_HINT)
    return layers


def _check(path: Path, tensors: Mapping[str, Tensor], origins: Mapping[str, Any]) -> dict[int, Tensor]:
    """The tensors by layer; OctaveError unless they and their metadata are what the format says."""
    if not tensors:
        raise OctaveError("there is no layer", where=str(path), hint=_HINT)
    by_layer = {}
    for name, tensor in tensors.items():
        match = _NAME.fullmatch(name)
        problem = "no tensor of this format, which has layers.<n>.k_center alone"
        if match is not None:
            problem = _tensor_problem(tensor) or _origin_problem(origins.get(match[1]), tensor.shape[-1])
        if match is None or problem:
            raise OctaveError(problem, where=f"{path}: {name}", hint=_HINT)
        by_layer[int(match[1])] = tensor
    lost = sorted(set(origins) - {str(layer) for layer in by_layer})
    if lost:
        raise OctaveError(f"metadata of layers without a tensor: {', '.join(lost)}", where=str(path), hint=_HINT)
    return by_layer


def _tensor_problem(tensor: Tensor) -> str:
    """What is wrong with a centre, or nothing."""
    if tensor.dtype != torch.float32 or tensor.dim() != 2 or not tensor.numel():
        return f"it is {tensor.dtype} {list(tensor.shape)}, not fp32 [kv_heads, head_size]"
    return "" if bool(torch.isfinite(tensor).all()) else "it has values that are not finite"


def _origin_problem(origin: Any, head_size: int) -> str:
    """What is wrong with the metadata of a centre, or nothing."""
    if not isinstance(origin, dict) or set(origin) != {*_COUNTS, "inv_freq", "layout"}:
        return "its metadata is missing, or has other fields than the format"
    if not all(type(origin[field]) is int and origin[field] >= 0 for field in _COUNTS):
        return f"{', '.join(_COUNTS)} in its metadata are not all integers from 0 on"
    if origin["head_size"] != head_size:
        return f"its metadata is of head_size {origin['head_size']}, and it has {head_size}"
    try:
        rotary = Rotary(tuple(origin["inv_freq"]), origin["layout"])
    except (TypeError, OctaveError) as error:
        return f"its metadata has no rotary embedding: {error}"
    fits = rotary.rotary_dims == origin["rotary_dims"] <= head_size
    return "" if fits else f"its metadata has {origin['rotary_dims']} rotary dims, and {len(rotary.inv_freq)} pairs"
