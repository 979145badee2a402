"""Centres of a model's layers in a safetensors file: ``layers.<n>.k_center``, fp32 [kv_heads, head_size].

The file's metadata has ``format`` and ``version``, and ``layers.<n>`` of each layer: JSON of what its centre rests on
(head_size, rotary_dims, inv_freq, layout, max_position, tokens). Nothing in it depends on when or where it was made.
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
from octave_gen.centring.rotary import PAIR_LAYOUTS
from octave_gen.errors import OctaveError

FORMAT: Final = "octave-gen k_center"
VERSION: Final = "1"
KEY_DTYPES: Final = (torch.float16, torch.bfloat16)
_NAME = re.compile(r"layers\.(0|[1-9][0-9]*)\.k_center")
_HINT = "write it with octave_gen.centring.save"


def save(path: Path, centers: Mapping[int, Center]) -> None:
    """Writes the centres by layer; the file is either whole or not there. OctaveError for one that is not finite."""
    from safetensors.torch import save as to_bytes

    if not centers:
        raise OctaveError("no layer has a centre", where=str(path), hint="give at least one")
    tensors, metadata = {}, {"format": FORMAT, "version": VERSION}
    for layer, center in sorted(centers.items()):
        name = f"layers.{layer}"
        tensors[f"{name}.k_center"] = center.k_center.contiguous()
        metadata[name] = json.dumps(
            {
                "head_size": center.head_size,
                "rotary_dims": center.rotary.rotary_dims,
                "inv_freq": center.rotary.inv_freq,
                "layout": center.rotary.layout,
                "max_position": center.max_position,
                "tokens": center.tokens,
            }
        )
    for name, tensor in tensors.items():
        _check(name, tensor, metadata, path)
    with explained("the centres cannot be written", path, "choose another file"):
        write_atomically(path, to_bytes(tensors, metadata))


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
    found = (metadata.get("format"), metadata.get("version"))
    if found != (FORMAT, VERSION):
        raise OctaveError(f"format and version are {found}, not {(FORMAT, VERSION)}", where=str(path), hint=_HINT)
    if not tensors:
        raise OctaveError("the file has no layer", where=str(path), hint=_HINT)
    unused = set(metadata) - {"format", "version"} - {name.removesuffix(".k_center") for name in tensors}
    if unused:
        raise OctaveError(f"metadata without a tensor: {', '.join(sorted(unused))}", where=str(path), hint=_HINT)
    by_layer = {_check(name, tensor, metadata, path): tensor for name, tensor in tensors.items()}
    return dict(sorted(by_layer.items()))


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


def _check(name: str, tensor: Tensor, metadata: Mapping[str, str], path: Path) -> int:
    """The layer that ``name`` says; OctaveError unless tensor and metadata are what the format says."""

    def wrong(what: str) -> OctaveError:
        return OctaveError(what, where=f"{path}: {name}", hint=_HINT)

    match = _NAME.fullmatch(name)
    if match is None:
        raise wrong("no such tensor in this format, which has layers.<n>.k_center alone")
    if tensor.dtype != torch.float32 or tensor.dim() != 2 or not tensor.numel():
        raise wrong(f"it is {tensor.dtype} {list(tensor.shape)}, not fp32 [kv_heads, head_size]")
    if not bool(torch.isfinite(tensor).all()):
        raise wrong("it has values that are not finite")
    problem = _origin_problem(metadata.get(name.removesuffix(".k_center")), tensor.shape[-1])
    if problem:
        raise wrong(problem)
    return int(match[1])


def _origin_problem(text: str | None, head_size: int) -> str | None:
    """What is wrong with the metadata of a layer, or None."""
    if text is None:
        return "it has no metadata"
    try:
        origin = json.loads(text)
    except ValueError:
        return "its metadata is no JSON"
    counts = ("head_size", "rotary_dims", "max_position", "tokens")
    if not isinstance(origin, dict) or set(origin) != {*counts, "inv_freq", "layout"}:
        return "its metadata has other fields than the format"
    if not all(type(origin[field]) is int and origin[field] >= 0 for field in counts):
        return f"{', '.join(counts)} in its metadata are not all integers from 0 on"
    if origin["head_size"] != head_size:
        return f"its metadata is of head_size {origin['head_size']}, and it has {head_size}"
    if origin["layout"] not in PAIR_LAYOUTS or not _are_frequencies(origin["inv_freq"], origin["rotary_dims"]):
        return "its metadata has a rotary embedding that does not exist"
    return None if origin["rotary_dims"] <= head_size else "its metadata has more rotary dims than the head has"


def _are_frequencies(value: Any, rotary_dims: int) -> bool:
    numbers = isinstance(value, list) and all(type(x) in (int, float) for x in value)
    return numbers and 2 * len(value) == rotary_dims
