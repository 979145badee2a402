"""The launches that a variant is checked with, as data: written, read back and made smaller field by field.

memory: ``dense``; ``strided`` (holes, odd strides, several tensors in one buffer); ``far`` (strides that reach beyond
2**31 and 4 GiB). values: ``gaussian`` (N(0, 1)); ``edges`` (zero, denormal, 65504, non-finite); ``poison`` (gaussian,
and what a shorter query of a group may not see is 0xFF bytes).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import Field, dataclass, field, fields, replace
from itertools import zip_longest
from typing import Any, TypeVar

from octave_gen.errors import OctaveError, did_you_mean, wrong_request

AnyCase = TypeVar("AnyCase", bound="Case")


def _number(default: int, least: int = 1, plain: int | None = None) -> Any:
    """A field from ``least`` on; nothing smaller than ``plain`` is any simpler."""
    return field(default=default, metadata={"least": least, "plain": least if plain is None else plain})


def _word(*choices: str) -> Any:
    """A field with these values; the first is the default and the plainest."""
    return field(default=choices[0], metadata={"choices": choices})


@dataclass(frozen=True)
class Case:
    """One launch (for decode with the reduce behind it, for a prefix with its chunk)."""

    def __str__(self) -> str:
        """``tokens=9 heads=2 …``: every field, as :func:`parse` reads it."""
        return " ".join(f"{f.name}={_text(getattr(self, f.name))}" for f in fields(self))


@dataclass(frozen=True)
class StoreCase(Case):
    """``skipped``: of five tokens how many are not stored. ``signs``: the format's own, or random words. ``center``: of
    K; ``edges``: heads in turn Gaussian, NaN in one dim, 65504, denormal, -Inf in one dim, zero."""

    tokens: int = _number(37)
    heads: int = _number(2)
    block_size: int = _number(16, plain=16)
    skipped: int = _number(0, 0)
    signs: str = _word("own", "random")
    memory: str = _word("dense", "strided", "far")
    values: str = _word("gaussian", "edges")
    center: str = _word("absent", "gaussian", "edges")


@dataclass(frozen=True)
class RotateCase(Case):
    """``inverse`` and ``k_layout``: 0 or 1. ``center``: as of store; the inverse takes none."""

    tokens: int = _number(9)
    heads: int = _number(3)
    k_layout: int = _number(0, 0)
    inverse: int = _number(0, 0)
    signs: str = _word("own", "random")
    memory: str = _word("dense", "strided", "far")
    values: str = _word("gaussian", "edges")
    center: str = _word("absent", "gaussian", "edges")

    def __post_init__(self) -> None:
        if self.inverse and self.center != "absent":
            raise _wrong("the inverse rotation takes no center")


@dataclass(frozen=True)
class DecodeCase(Case):
    """``lengths``: tokens of each request. ``scale``: of queries and keys.

    ``rows``: ``grouped``, every request with as many query tokens as the kernel takes at once, the last of which sees
    all tokens; ``mixed``, neighbours of several requests and padding, and a last group that is not full; ``ragged``,
    requests of different numbers of query tokens in groups of their own (group_starts), and padding.
    """

    lengths: tuple[int, ...] = (17,)
    splits: int = _number(1)
    block_size: int = _number(16, plain=16)
    kv_heads: int = _number(1)
    scale: int = _number(1)
    rows: str = _word("grouped", "mixed", "ragged")
    signs: str = _word("own", "random")
    memory: str = _word("dense", "strided", "far")
    values: str = _word("gaussian", "poison", "edges")


@dataclass(frozen=True)
class ReduceCase(Case):
    """Synthetic partials; ``empty``: of five splits how many hold no token (their outputs are NaN)."""

    queries: int = _number(4)
    heads: int = _number(5)
    splits: int = _number(7)
    empty: int = _number(2, 0)
    signs: str = _word("own", "random")
    memory: str = _word("dense", "strided", "far")


@dataclass(frozen=True)
class ChunkCase(Case):
    """``prefixes``, ``chunks``: cached and new tokens of each request; the shorter list is filled up with 0.

    The partials of the prefixes are synthetic. ``group``: query heads of a kv head. ``scale``: of q and k. ``poison``:
    a chunk's last tokens are not finite.
    """

    prefixes: tuple[int, ...] = (17,)
    chunks: tuple[int, ...] = (5,)
    splits: int = _number(1)
    kv_heads: int = _number(1)
    group: int = _number(1)
    scale: int = _number(1)
    memory: str = _word("dense", "strided", "far")
    values: str = _word("gaussian", "poison", "edges")

    @property
    def requests(self) -> tuple[tuple[int, int], ...]:
        """(prefix, chunk) of each request."""
        return tuple(zip_longest(self.prefixes, self.chunks, fillvalue=0))


@dataclass(frozen=True)
class PrefixCase(ChunkCase):
    """The same with packed prefixes in a paged cache; the chunk kernel goes on from the partials."""

    block_size: int = _number(16, plain=16)


KINDS: dict[str, type[Case]] = {
    "store": StoreCase,
    "rotate": RotateCase,
    "decode": DecodeCase,
    "reduce": ReduceCase,
    "prefill_prefix": PrefixCase,
    "prefill_chunk": ChunkCase,
}

HUGE = 20_000
"""A scale of queries and keys with which most rows' largest scores lie between 2**29 and 2**31, where fp32 no longer
tells neighbours apart."""

FULL: dict[str, tuple[Case, ...]] = {
    "store": (
        StoreCase(tokens=37, skipped=1, values="edges"),
        StoreCase(tokens=23, block_size=1568, skipped=1, signs="random", memory="strided"),
        StoreCase(tokens=19, skipped=1, memory="far", values="edges"),
        StoreCase(tokens=37, heads=1, skipped=1, signs="random", values="edges", center="gaussian"),
        StoreCase(tokens=17, heads=6, block_size=48, memory="strided", center="edges"),
    ),
    "rotate": (
        *(RotateCase(k_layout=k, inverse=i, values="edges") for k in (0, 1) for i in (0, 1)),
        *(RotateCase(k_layout=k, inverse=1 - k, signs="random", memory="strided") for k in (0, 1)),
        *(RotateCase(k_layout=k, inverse=k, memory="far") for k in (0, 1)),
        *(RotateCase(k_layout=k, values="edges", center="gaussian") for k in (0, 1)),
        *(RotateCase(k_layout=k, heads=6, signs="random", memory="strided", center="edges") for k in (0, 1)),
    ),
    "decode": (
        DecodeCase(lengths=(0, 1, 15, 16, 17, 100, 257), splits=3, kv_heads=2),
        DecodeCase(
            lengths=(17, 257, 100), block_size=1568, rows="mixed", signs="random", memory="strided", values="poison"
        ),
        DecodeCase(lengths=(17, 1, 16, 100), splits=20, kv_heads=2, memory="far", values="edges"),
        DecodeCase(lengths=(40, 17, 70, 200), splits=2, block_size=48, rows="ragged", values="edges"),
        DecodeCase(lengths=(2, 17, 40, 100), splits=3, kv_heads=2, scale=HUGE),
    ),
    "reduce": (
        ReduceCase(splits=1, empty=1),
        ReduceCase(splits=7, memory="strided"),
        ReduceCase(splits=70, signs="random"),
        ReduceCase(splits=600),
        ReduceCase(queries=1, heads=3, splits=1024, empty=4),
        ReduceCase(splits=3, memory="far"),
    ),
    "prefill_prefix": (
        PrefixCase((17, 0, 150, 1, 16), (5, 3, 0, 22, 40), splits=3, kv_heads=2, group=3),
        PrefixCase((150, 33), (1, 22), splits=2, group=6, scale=3, block_size=48),
        PrefixCase((70, 15), (9, 17), splits=20, group=2, memory="strided", values="poison", block_size=1568),
        PrefixCase((17, 1, 33, 70), (6, 2, 8, 5), kv_heads=2, group=4, memory="far", values="edges"),
        PrefixCase((2, 100, 40), (22, 5, 17), splits=2, kv_heads=2, group=2, scale=HUGE),
    ),
    "prefill_chunk": (
        ChunkCase((0,), (40,), kv_heads=2, group=3, scale=3),
        ChunkCase((0,), (1, 0, 16, 33), group=16),
        ChunkCase((150, 0, 1, 17), (22, 7, 40, 0), splits=7, kv_heads=2, group=6, memory="strided", values="poison"),
        ChunkCase((33, 0, 0, 40), (6, 17, 5, 70), splits=2, group=4, memory="far", values="edges"),
        ChunkCase((0, 40, 17), (40, 22, 5), splits=2, kv_heads=2, group=3, scale=HUGE),
    ),
}
QUICK: dict[str, tuple[Case, ...]] = {
    "store": (
        StoreCase(tokens=37, skipped=1, memory="strided", values="edges"),
        StoreCase(tokens=5, heads=6, center="edges"),
    ),
    "rotate": (
        RotateCase(k_layout=0, values="edges"),
        RotateCase(k_layout=1, inverse=1, memory="strided"),
        RotateCase(tokens=3, heads=6, k_layout=1, center="edges"),
    ),
    "decode": (
        DecodeCase(lengths=(0, 1, 17, 150), splits=2, block_size=48, rows="ragged", memory="strided", values="poison"),
    ),
    "reduce": (ReduceCase(splits=7, memory="strided"),),
    "prefill_prefix": (
        PrefixCase((17, 0, 150), (5, 9, 3), splits=2, group=3, memory="strided", values="poison", block_size=48),
    ),
    "prefill_chunk": (ChunkCase((0, 40, 16), (19, 9, 2), splits=2, group=3, memory="strided", values="poison"),),
}


def parse(kind: str, text: str) -> Case:
    """The case that ``str(case)`` writes; fields that it leaves out have their defaults.

    Raises OctaveError for an unknown field and for a value that it cannot have.
    """
    known = {f.name: f for f in fields(KINDS[kind])}
    values: dict[str, Any] = {}
    for part in text.split():
        name, _, value = part.partition("=")
        if name not in known:
            raise _wrong(f"a {kind} case has no {name!r}{did_you_mean(name, list(known))}; it has {', '.join(known)}")
        values[name] = _value(known[name], value)
    return KINDS[kind](**values)


def smaller(case: AnyCase) -> Iterator[AnyCase]:
    """Cases that differ from ``case`` in one field, which is smaller or plainer; the boldest steps first."""
    for f in fields(case):
        value = getattr(case, f.name)
        steps: Iterator[object]
        if isinstance(value, tuple):
            steps = _smaller_tuples(value)
        elif isinstance(value, int):
            steps = _smaller_numbers(value, f.metadata["plain"])
        else:
            steps = iter(f.metadata["choices"][: f.metadata["choices"].index(value)])
        for step in steps:
            yield replace(case, **{f.name: step})


def _smaller_numbers(value: int, plain: int) -> Iterator[int]:
    yield from sorted({n for n in (plain, value // 4, value // 2, value - 1) if plain <= n < value})


def _smaller_tuples(value: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    if len(value) > 1:
        yield from ((item,) for item in value)
        yield from (value[:i] + value[i + 1 :] for i in range(len(value)))
    for i, item in enumerate(value):
        for less in _smaller_numbers(item, 0):
            yield (*value[:i], less, *value[i + 1 :])


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _value(f: Field[Any], text: str) -> object:
    if "choices" in f.metadata:
        if text not in f.metadata["choices"]:
            raise _wrong(f"{f.name} is {text!r}, not {' or '.join(f.metadata['choices'])}")
        return text
    numbers = text.split(",")
    if not all(number.isascii() and number.isdecimal() and len(number) < 8 for number in numbers):
        raise _wrong(f"{f.name} is {text!r}, no number of this size")
    if isinstance(f.default, tuple):
        return tuple(map(int, numbers))
    if len(numbers) > 1 or int(text) < f.metadata["least"]:
        raise _wrong(f"{f.name} is {text}, not one number from {f.metadata['least']}")
    return int(text)


def _wrong(what: str) -> OctaveError:
    return wrong_request(what, where="case", hint="`octave-gen verify` prints a failing case as it is written here")
