"""What the layers of a model hold on a text: centres from their keys, and samples for ``octave-gen quality``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from octave_gen.build.files import write_atomically
from octave_gen.centring import Calibration, Rotary
from octave_gen.quality.real.cache import Recorder
from octave_gen.quality.real.model import Model


def calibrate(model: Model, texts: Sequence[Tensor]) -> dict[int, Calibration]:
    """The keys of every layer on texts, int64 [tokens] each."""
    gatherers: dict[int, Calibration] = {}
    for ids in texts:
        record = Recorder()
        model.read(ids, record)
        for layer, (_, key, _) in record.layers.items():
            kv_heads, _, head_size = key.shape
            if layer not in gatherers:
                rotary = Rotary.of_base(head_size, model.rope_base(layer))
                gatherers[layer] = Calibration(kv_heads, head_size, rotary)
            gatherers[layer].add(key.transpose(0, 1), torch.arange(len(ids)))
    return gatherers


def capture(model: Model, ids: Tensor, path: Path) -> None:
    """Writes q, k and v of every layer on a text: ``layers.<n>.q``, ``.k`` and ``.v``, fp32 [tokens, heads, head]."""
    record = Recorder()
    model.read(ids, record)
    tensors, metadata = {}, {}
    for layer, tensors_of in sorted(record.layers.items()):
        for part, tensor in zip("qkv", tensors_of, strict=True):
            tensors[f"layers.{layer}.{part}"] = tensor.transpose(0, 1).contiguous()
        metadata[f"layers.{layer}.sm_scale"] = repr(model.sm_scale)
        window = model.window(layer)
        if window is not None:
            metadata[f"layers.{layer}.window"] = str(window)
    write_atomically(path, save(tensors, metadata))
