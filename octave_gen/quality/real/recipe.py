"""The measurement itself: which text is read, in which order settings are measured, and where results lie."""

from __future__ import annotations

import hashlib
import io
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from octave_gen import centring
from octave_gen.build.files import write_atomically
from octave_gen.errors import OctaveError
from octave_gen.formats.codec import Codec
from octave_gen.formats.codecs import CODECS, make
from octave_gen.quality.real import text, weights
from octave_gen.quality.real.cache import Quantized, Setting
from octave_gen.quality.real.layers import calibrate, capture
from octave_gen.quality.real.model import Cache, Model, exact
from octave_gen.quality.real.results import Results, codec_digest
from octave_gen.quality.real.windows import Window, at_ends, at_starts, check_apart

HEAD_SIZE: Final = 256
ROTARY_DIMS: Final = 64
"""What Octave's block K keeps at 4 bits: kernels are built for 64 of 256, though this model turns the whole head."""
CALIBRATION_TOKENS: Final = 4096
CALIBRATION_WINDOWS: Final = 4
MAX_POSITION: Final = 4095
"""That centres are for: the longest context measured."""
MODEL_POSITION: Final = 32767
"""The model's own last one."""
CAPTURED_TOKENS: Final = 1024
CHECKED_TOKENS: Final = 704  # more than the sliding window
EXACT: Final = Setting("exact")


@dataclass(frozen=True)
class Context:
    """Windows of so many tokens; formats: globs of the codecs that are measured on them."""

    tokens: int
    windows: int
    formats: tuple[str, ...]


CONTEXTS: Final = (
    Context(768, 6, ("*",)),
    Context(
        4096, 1, ("octave_*", "fp8", "octopus_3", "turboquant_3bit_nc", "turboquant_k3v4_nc", "turboquant_4bit_nc")
    ),
)
CENTRED_BYTES: Final = 384
"""Slots of more than 6 bits a value lose so little that no centre is tried."""
STUDIED: Final = "octave_k3v3_compact"
"""It is also measured with K alone, with V alone, and with centres for all positions of the model."""


def settings(context: Context, codecs: Mapping[str, Codec], wanted: Sequence[str] = ("*",)) -> list[Setting]:
    """What is measured in a context of the codecs that match a glob of ``wanted`` too."""
    found = []
    for name, codec in codecs.items():
        if all(any(fnmatch(name, glob) for glob in globs) for globs in (context.formats, wanted)):
            found.append(Setting(name))
            if codec.slot_bytes <= CENTRED_BYTES:
                found.append(Setting(name, MAX_POSITION))
            if name == STUDIED:
                found += [Setting(STUDIED, MODEL_POSITION), Setting(STUDIED, part="k"), Setting(STUDIED, part="v")]
    return found


def codecs(names: Iterable[str]) -> dict[str, Codec]:
    """By name; what depends on the rotary dims also for those of the model, as ``octave_k3v4@256+search``."""
    found = {}
    for name in names:
        found[name] = make(name, HEAD_SIZE, ROTARY_DIMS)
        of_model = make(name, HEAD_SIZE, HEAD_SIZE)
        if of_model.slot_bytes != found[name].slot_bytes:
            dtype, plus, encoder = name.partition("+")
            found[f"{dtype}@{HEAD_SIZE}{plus}{encoder}"] = of_model
    return found


class Recipe:
    """All of it in one folder: ``package/`` holds the unpacked Debian package; everything else is written here."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.folder = folder
        self.say = say
        self.results = Results(folder / "losses")
        self._check_basis(folder / "basis.json")

    def basis(self) -> dict[str, str]:
        """What all results rest on, besides the codecs."""
        packages = ("torch", "transformers", "tokenizers", "gguf")
        return {
            "weights": f"{weights.NAME}, sha256 {weights.SHA256}",
            "text": f"{text.PACKAGE}, sources of {', '.join(text.PARTS)}, sha256 {text.SHA256}",
            "centres": f"from {CALIBRATION_WINDOWS} windows of {CALIBRATION_TOKENS} tokens, none of which is measured",
            "layout": f"head {HEAD_SIZE}, rotary_dims {ROTARY_DIMS}",
            "versions": ", ".join(f"{name} {version(name)}" for name in packages),
        }

    def _check_basis(self, path: Path) -> None:
        basis = json.dumps(self.basis(), indent=1)
        if path.exists() and path.read_text(encoding="utf-8") != basis:
            raise OctaveError(
                "what lies there was measured on another basis", where=str(path), hint="delete the folder"
            )
        write_atomically(path, basis.encode())

    @cached_property
    def weights(self) -> Path:
        path = self.folder / "model.gguf"
        weights.join(path)
        return path

    @cached_property
    def model(self) -> Model:
        model = Model(self.weights)
        difference = model.check(self.ids(Window(0, CHECKED_TOKENS)))
        self.say(f"logits differ from those of transformers' eager attention by {difference:.1e}")
        return model

    @cached_property
    def tokens(self) -> Tensor:
        """Of the whole text: int64 [tokens], the first of them the one that begins every text."""
        path = self.folder / "tokens.pt"
        if not path.exists():
            from transformers import AutoTokenizer

            self.say("tokenizing")
            tokenizer = AutoTokenizer.from_pretrained(self.folder, gguf_file=self.weights.name)
            buffer = io.BytesIO()
            torch.save(torch.tensor(tokenizer(text.read(self.folder / "package"))["input_ids"]), buffer)
            write_atomically(path, buffer.getvalue())
        tokens: Tensor = torch.load(path)
        return tokens

    def ids(self, window: Window) -> Tensor:
        """int64 [window.tokens]: the token that begins a text in the place of the window's first."""
        return torch.cat((self.tokens[:1], self.tokens[window.start + 1 : window.end]))

    def windows(self, context: Context) -> list[Window]:
        return at_starts(len(self.tokens), context.tokens, context.windows)

    @cached_property
    def centres(self) -> dict[int, dict[int, Tensor]]:
        """By the largest position they are for, then by layer: fp32 [kv_heads, head]; kept in files."""
        positions = (MAX_POSITION, MODEL_POSITION)
        if not all(self._centres_path(position).exists() for position in positions):
            self.say("calibrating")
            sample = at_ends(len(self.tokens), CALIBRATION_TOKENS, CALIBRATION_WINDOWS)
            for context in CONTEXTS:
                check_apart(self.windows(context), sample)
            layers = calibrate(self.model, [self.ids(window) for window in sample])
            for position in positions:
                found = {layer: gathered.center(position) for layer, gathered in layers.items()}
                centring.save(self._centres_path(position), found)
        return {position: centring.load(self._centres_path(position)) for position in positions}

    def _centres_path(self, position: int) -> Path:
        return self.folder / f"centres-{position}.safetensors"

    def capture(self) -> Path:
        """q, k and v of every layer on the first tokens of the first window, in a file for ``octave-gen quality``."""
        path = self.folder / "capture.safetensors"
        if not path.exists():
            capture(self.model, self.ids(Window(0, CAPTURED_TOKENS)), path)
        return path

    @cached_property
    def codecs(self) -> dict[str, Codec]:
        return codecs(CODECS)

    @cached_property
    def digests(self) -> dict[str, str]:
        """Of each codec."""
        return {name: codec_digest(codec) for name, codec in self.codecs.items()}

    def digest(self, setting: Setting) -> str:
        """Of all that a setting's losses depend on, besides the basis."""
        if setting == EXACT:
            return ""
        codec = self.digests[setting.codec]
        if setting.centre is None:
            return codec
        path = self._centres_path(setting.centre)
        return hashlib.sha256(codec.encode() + (path.read_bytes() if path.exists() else b"")).hexdigest()

    def losses(self, context: Context, setting: Setting) -> dict[int, list[float]]:
        """What has been measured of a setting."""
        return self.results.losses(context.tokens, setting.label, self.digest(setting))

    def measure(self, wanted: Sequence[str] = ("*",)) -> None:
        """Measures what no file has yet, a window of each context in turn: settings can be compared early on.

        wanted: globs of codecs.
        """
        for number in range(max(context.windows for context in CONTEXTS)):
            for context in CONTEXTS:
                if number < context.windows:
                    self._measure_window(context, number, wanted)

    def _measure_window(self, context: Context, number: int, wanted: Sequence[str]) -> None:
        window = self.windows(context)[number]
        for setting in [EXACT, *settings(context, self.codecs, wanted)]:
            if window.start in self.losses(context, setting):
                continue
            model, cache, begin = self.model, self._cache(setting), time.perf_counter()
            losses = model.losses(self.ids(window), cache)
            self.results.add(context.tokens, setting.label, self.digest(setting), window.start, losses)
            took = time.perf_counter() - begin
            where = f"{context.tokens} tokens, window {number + 1} of {context.windows}"
            self.say(f"{where}: {setting.label} {float(losses.mean()):.4f} nats, {took:.0f} s")

    def _cache(self, setting: Setting) -> Cache:
        if setting == EXACT:
            return exact
        centres = None if setting.centre is None else self.centres[setting.centre]
        return Quantized(self.codecs[setting.codec], centres, setting.part)
