"""The tables of docs/quality.md, from what has been measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from octave_gen.quality.real.cache import Setting
from octave_gen.quality.real.recipe import (
    CONTEXTS,
    EXACT,
    HEAD_SIZE,
    MAX_POSITION,
    MODEL_POSITION,
    STUDIED,
    Context,
    Recipe,
)
from octave_gen.quality.real.statistics import Mean, added, mean

Losses = Mapping[int, Sequence[float]]
"""Mean losses of the blocks of each window, by the window's first token."""


def report(recipe: Recipe) -> str:
    """What was measured on, the losses without quantization, and what each codec adds, in Markdown."""
    basis = "".join(f"* {name}: {value}\n" for name, value in recipe.basis().items())
    return "\n".join((basis, _base_table(recipe), _codec_table(recipe), _studied_table(recipe)))


def _base_table(recipe: Recipe) -> str:
    rows = []
    for context in CONTEXTS:
        base = recipe.losses(context, EXACT)
        loss = mean(of_windows(base, sorted(base)))
        predicted = (context.tokens - 1) * len(base)
        error = "-" if loss.error is None else f"{loss.error:.3f}"
        rows.append(
            [
                str(context.tokens),
                str(len(base)),
                str(predicted),
                f"{loss.value:.3f}",
                error,
                f"{math.exp(loss.value):.2f}",
            ]
        )
    return table(["context", "windows", "predicted tokens", "nats per token", "±", "perplexity"], rows)


def _codec_table(recipe: Recipe) -> str:
    """By slot bytes; a cell is the added loss in nats per token."""
    head = ["format", "bytes", "bits per value"]
    head += [f"{context.tokens}{centred}" for context in CONTEXTS for centred in ("", ", centred K")]
    rows = []
    for name, codec in sorted(recipe.codecs.items(), key=lambda item: item[1].slot_bytes):
        cells = [
            _cell(recipe, context, Setting(name, centre)) for context in CONTEXTS for centre in (None, MAX_POSITION)
        ]
        bits = 8 * codec.slot_bytes / (2 * HEAD_SIZE)
        rows.append([f"`{name}`", str(codec.slot_bytes), f"{bits:.3g}", *cells])
    return table(head, rows)


def _studied_table(recipe: Recipe) -> str:
    settings = {
        "K alone": Setting(STUDIED, part="k"),
        "V alone": Setting(STUDIED, part="v"),
        f"K centred for positions up to {MAX_POSITION}": Setting(STUDIED, MAX_POSITION),
        f"K centred for positions up to {MODEL_POSITION}": Setting(STUDIED, MODEL_POSITION),
    }
    rows = [[name, *(_cell(recipe, context, of) for context in CONTEXTS)] for name, of in settings.items()]
    return table([f"`{STUDIED}`", *(str(context.tokens) for context in CONTEXTS)], rows)


def _cell(recipe: Recipe, context: Context, setting: Setting) -> str:
    return shown(added_loss(recipe.losses(context, setting), recipe.losses(context, EXACT)))


def of_windows(losses: Losses, starts: Sequence[int]) -> list[float]:
    """The mean loss of each window."""
    return [math.fsum(losses[start]) / len(losses[start]) for start in starts]


def added_loss(losses: Losses, base: Losses) -> Mean | None:
    """Mean over the windows that both have of loss - base loss; None where there is no such window."""
    starts = sorted(set(losses) & set(base))
    return added(of_windows(losses, starts), of_windows(base, starts)) if starts else None


def shown(result: Mean | None) -> str:
    """``+0.412 ± 0.031``, nats per token; ``-`` for what was not measured."""
    if result is None:
        return "-"
    error = "" if result.error is None else f" ± {result.error:.3f}"
    return f"{result.value:+.3f}{error}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown."""
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *rows))
