"""Measured losses in files, one for each setting and context, so that an interrupted measurement goes on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import torch

from octave_gen.build.files import write_atomically
from octave_gen.formats.codec import Codec

EXACT = "exact"
"""The label of the losses without any quantization."""


@dataclass(frozen=True)
class Results:
    """The files of one folder. Each is JSON: ``codec``, the digest of the codec that was measured, and ``losses``, the
    mean loss in nats per token of each window, by the window's first token."""

    folder: Path

    def losses(self, context: int, label: str, codec: str) -> dict[int, float]:
        """What has been measured with this codec; nothing where the file is of another one."""
        path = self._path(context, label)
        if not path.exists():
            return {}
        held = json.loads(path.read_text(encoding="utf-8"))
        return {int(start): loss for start, loss in held["losses"].items()} if held["codec"] == codec else {}

    def add(self, context: int, label: str, codec: str, start: int, loss: float) -> None:
        losses = self.losses(context, label, codec) | {start: loss}
        path = self._path(context, label)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"codec": codec, "losses": dict(sorted(losses.items()))}, indent=1)
        write_atomically(path, text.encode())

    def _path(self, context: int, label: str) -> Path:
        return self.folder / str(context) / f"{label}.json"


def codec_digest(codec: Codec) -> str:
    """A sha256 over what the codec does to 64 fixed tokens: another arithmetic of the same name has another one."""
    generator = torch.Generator().manual_seed(0)
    key, value = torch.randn(2, 64, codec.head_size, generator=generator)
    slots = codec.encode(key, value)
    k_hat, v_hat = codec.decode(slots)
    digest = hashlib.sha256(slots.numpy().tobytes())
    for part in (k_hat, v_hat):
        digest.update(part.contiguous().numpy().tobytes())
    return digest.hexdigest()
