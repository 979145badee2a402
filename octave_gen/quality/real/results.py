"""Measured losses in files, one for each setting and context, so that an interrupted measurement goes on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from octave_gen.build.files import write_atomically
from octave_gen.formats.codec import Codec

BLOCK_TOKENS: Final = 256
"""Tokens whose mean loss is kept as one number."""


@dataclass(frozen=True)
class Results:
    """The files of one folder, ``<context>/<label>.json``.

    Each holds ``codec``, the digest of the codec that was measured, and ``losses``: by the first token of each window,
    the mean losses in nats of its blocks of 256 tokens, the last of which may be shorter.
    """

    folder: Path

    def losses(self, context: int, label: str, codec: str) -> dict[int, list[float]]:
        """What has been measured with this codec; nothing where the file is of another one."""
        path = self._path(context, label)
        if not path.exists():
            return {}
        held = json.loads(path.read_text(encoding="utf-8"))
        return {int(start): blocks for start, blocks in held["losses"].items()} if held["codec"] == codec else {}

    def add(self, context: int, label: str, codec: str, start: int, losses: Tensor) -> None:
        """Adds a window: losses fp32 [tokens]."""
        blocks = [round(float(block.double().mean()), 7) for block in torch.split(losses, BLOCK_TOKENS)]
        found = self.losses(context, label, codec) | {start: blocks}
        path = self._path(context, label)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps({"codec": codec, "losses": dict(sorted(found.items()))}).encode())

    def _path(self, context: int, label: str) -> Path:
        return self.folder / str(context) / f"{label}.json"


def codec_digest(codec: Codec) -> str:
    """A sha256 over what the codec does to 64 fixed tokens: another arithmetic of the same name has another one."""
    generator = torch.Generator().manual_seed(0)
    key, value = torch.randn(2, 64, codec.head_size, generator=generator)
    slots = codec.encode(key, value)
    digest = hashlib.sha256(slots.contiguous().numpy().tobytes())
    for decoded in codec.decode(slots):
        digest.update(decoded.contiguous().numpy().tobytes())
    return digest.hexdigest()
