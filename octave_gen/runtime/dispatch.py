"""Which kernel of which loaded library serves a call."""

from __future__ import annotations

from collections.abc import Iterable

from octave_gen import arch as archs
from octave_gen.arch import ARCHS, PORTABLE
from octave_gen.errors import OctaveError, did_you_mean, wrong_request
from octave_gen.kernels import KINDS
from octave_gen.runtime.library import Library, LoadedVariant, VariantKey
from octave_gen.runtime.missing import missing_kernel


class Registry:
    """The loaded libraries. Where two hold the same variant, the one loaded last serves it."""

    def __init__(self, libraries: Iterable[Library] = ()) -> None:
        self._libraries: dict[str, Library] = {}
        self._table: dict[VariantKey, tuple[Library, LoadedVariant]] = {}
        for library in libraries:
            self.add(library)

    def add(self, library: Library) -> None:
        """Adds a library; one whose namespace is known already changes nothing."""
        if library.namespace not in self._libraries:
            self._libraries[library.namespace] = library
            self._table.update({variant.key: (library, variant) for variant in library.variants})

    def library(self, namespace: str) -> Library | None:
        return self._libraries.get(namespace)

    @property
    def libraries(self) -> tuple[Library, ...]:
        """In the order in which they were loaded."""
        return tuple(self._libraries.values())

    def find(self, key: VariantKey) -> tuple[Library, LoadedVariant]:
        """The kernel for ``key``; raises OctaveError naming what is nearest and the command that builds it."""
        found = self._table.get(key)
        if found is None:
            raise missing_kernel(key, [variant for _, variant in self._table.values()])
        return found


REGISTRY = Registry()


def decode_tier(arch: str, use_wmma: bool, tier: str | None = None) -> str:
    """``tier``, else what ``use_wmma`` asks for: portable, or the chip's matrix tier; OctaveError where it has none."""
    if tier is not None:
        return _offered("decode", arch, tier)
    if not use_wmma:
        return PORTABLE
    default = _matrix_tier(arch)
    if default is None:
        raise no_matrix_tier(arch)
    return default


def prefill_tier(arch: str, tier: str | None = None) -> str:
    """``tier``, else the chip's matrix tier: prefill's kernels have no other; OctaveError where there is none."""
    if tier is not None:
        return _offered("prefill_prefix", arch, tier)
    default = _matrix_tier(arch)
    if default is None:
        raise wrong_request(
            f"prefill has kernels for matrix cores alone, and there is no matrix tier for {arch}",
            where="octave.prefill",
            hint="cache_store and decode serve the tokens of a chunk too",
        )
    return default


def check_tier(kind: str, tier: str | None) -> None:
    """Raises OctaveError for a ``tier`` of no chip; None stands for the default."""
    known = [one.name for one in KINDS[kind].tiers]
    if tier is not None and tier not in known:
        raise _no_tier(f"there is no tier {tier!r}", kind, tier, known)


def _offered(kind: str, arch: str, tier: str) -> str:
    chip = archs.get(arch)
    known = [one.name for one in KINDS[kind].tiers_on(chip)]
    if tier not in known:
        raise _no_tier(f"{arch} has no tier {tier!r}", kind, tier, known)
    return tier


def _no_tier(what: str, kind: str, tier: str, known: list[str]) -> OctaveError:
    op = KINDS[kind].op
    return wrong_request(
        f"{what} of {op}{did_you_mean(tier, known)}", where=f"octave.{op}", hint=f"tiers: {', '.join(known)}"
    )


def _matrix_tier(arch: str) -> str | None:
    chip = ARCHS.get(arch)
    return chip.matrix_tier if chip else None


def check_block_size(kind: str, tier: str, block_size: int, *, by_name: bool = False) -> None:
    """Raises OctaveError when ``tier`` of a kind, which was asked for ``by_name``, cannot read this block size."""
    owner = KINDS[kind]
    multiple = owner.tier(tier).block_size_multiple
    if block_size % multiple:
        portable = any(one.name == PORTABLE for one in owner.tiers)
        other = f"tier={PORTABLE!r}" if by_name else "use_wmma=False"
        raise wrong_request(
            f"block size {block_size} is no multiple of {multiple}, as the {tier} tier needs",
            where=f"octave.{owner.op}",
            hint=(f"pass {other}, or " if portable else "") + "choose another block size",
        )


def no_matrix_tier(where: str) -> OctaveError:
    return wrong_request(f"there is no matrix tier for {where}", where="use_wmma", hint="pass use_wmma=False")
