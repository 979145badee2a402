"""The tables of docs/quality.md, from what has been measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from octave_gen.quality.real.cache import Setting
from octave_gen.quality.real.recipe import CONTEXTS, EXACT, HEAD_SIZE, MAX_POSITION, MODEL_POSITION, STUDIED, Recipe
from octave_gen.quality.real.results import BLOCK_TOKENS
from octave_gen.quality.real.statistics import Mean, added, mean

Losses = Mapping[int, Sequence[float]]
"""Mean losses of the blocks of each window, by the window's first token."""
STRETCH: Final = 1024 // BLOCK_TOKENS


def report(recipe: Recipe) -> str:
    """What was measured on, the losses without quantization, and what each codec adds, in Markdown."""
    basis = "".join(f"* {name}: {value}\n" for name, value in recipe.basis().items())
    return "\n".join((basis, _base_table(recipe), _codec_table(recipe), _studied_table(recipe), _search_table(recipe)))


def _base_table(recipe: Recipe) -> str:
    rows = []
    for context in CONTEXTS:
        base = recipe.losses(context, EXACT)
        if base:
            loss = mean(stretches(base, sorted(base)))
            error = "-" if loss.error is None else f"{loss.error:.3f}"
            counts = [context.tokens, len(base), (context.tokens - 1) * len(base)]
            rows.append([*map(str, counts), f"{loss.value:.3f}", error, f"{math.exp(loss.value):.2f}"])
    return table(["context", "windows", "predicted tokens", "nats per token", "±", "perplexity"], rows)


def _codec_table(recipe: Recipe) -> str:
    """By slot bytes; a cell is the added loss in nats per token."""
    rows = []
    for name, codec in sorted(recipe.codecs.items(), key=lambda item: item[1].slot_bytes):
        bits = 8 * codec.slot_bytes / (2 * HEAD_SIZE)
        plain, centred = (_cells(recipe, Setting(name, centre), EXACT) for centre in (None, MAX_POSITION))
        in_pairs = [cell for pair in zip(plain, centred, strict=True) for cell in pair]
        rows.append([f"`{name}`", str(codec.slot_bytes), f"{bits:.3g}", *in_pairs])
    contexts = [f"{context.tokens}{centred}" for context in CONTEXTS for centred in ("", ", centred K")]
    return table(["format", "bytes", "bits per value", *contexts], rows)


def _studied_table(recipe: Recipe) -> str:
    settings = {
        "K alone": Setting(STUDIED, part="k"),
        "V alone": Setting(STUDIED, part="v"),
        f"K centred for positions up to {MAX_POSITION}": Setting(STUDIED, MAX_POSITION),
        f"K centred for positions up to {MODEL_POSITION}": Setting(STUDIED, MODEL_POSITION),
    }
    rows = [[name, *_cells(recipe, setting, EXACT)] for name, setting in settings.items()]
    return table([f"`{STUDIED}`", *(str(context.tokens) for context in CONTEXTS)], rows)


def _search_table(recipe: Recipe) -> str:
    """What the encoder `search` adds to the plain one, which is negative where it is better."""
    rows = []
    for name in recipe.codecs:
        plain, _, encoder = name.partition("+")
        for centre in (None, MAX_POSITION) if encoder else ():
            label = f"`{name}`" + ("" if centre is None else ", centred K")
            rows.append([label, *_cells(recipe, Setting(name, centre), Setting(plain, centre))])
    return table(["less the plain encoder", *(str(context.tokens) for context in CONTEXTS)], rows)


def _cells(recipe: Recipe, setting: Setting, base: Setting) -> list[str]:
    """The loss added to that of another setting, in each context."""
    cells = []
    for context in CONTEXTS:
        of_setting, of_base = recipe.losses(context, setting), recipe.losses(context, base)
        exact = recipe.losses(context, EXACT)
        cells.append(shown(added_loss(of_setting, of_base), len(stretches(exact, list(exact)))))
    return cells


def stretches(losses: Losses, starts: Sequence[int]) -> list[float]:
    """The mean loss of each stretch of up to 1024 tokens of these windows: what counts as one observation."""
    return [
        math.fsum(part) / len(part)
        for start in starts
        for part in (losses[start][first : first + STRETCH] for first in range(0, len(losses[start]), STRETCH))
    ]


def added_loss(losses: Losses, base: Losses) -> Mean | None:
    """Mean over the stretches that both have of loss - base loss; None where there are none."""
    starts = sorted(set(losses) & set(base))
    return added(stretches(losses, starts), stretches(base, starts)) if starts else None


def shown(result: Mean | None, observations: int) -> str:
    """``+0.412 ± 0.031``, ``-`` for what was not measured; "of 4" where there are only so many observations."""
    if result is None:
        return "-"
    error = "" if result.error is None else f" ± {result.error:.3f}"
    return f"{result.value:+.3f}{error}" + ("" if result.count == observations else f" (of {result.count})")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown."""
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *rows))
