"""Which kernel of which loaded library serves a call."""

from __future__ import annotations

from collections.abc import Iterable

from octave_gen.arch import ARCHS, PORTABLE, refusal
from octave_gen.errors import OctaveError, wrong_request
from octave_gen.kernels import KINDS
from octave_gen.runtime.library import Library, LoadedVariant, VariantKey
from octave_gen.runtime.missing import ON_CPU, missing_kernel


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


def decode_tier(arch: str, use_wmma: bool) -> str:
    """The tier that ``use_wmma`` asks for: portable, or the chip's matrix tier; OctaveError where it has none."""
    if not use_wmma:
        return PORTABLE
    tier = _matrix_tier(arch, "octave.decode")
    if tier is None:
        raise no_matrix_tier(arch)
    return tier


def prefill_tier(arch: str) -> str:
    """The chip's matrix tier, the only one that prefill's kernels have; OctaveError where it has none."""
    tier = _matrix_tier(arch, "octave.prefill")
    if tier is None:
        raise wrong_request(
            f"prefill has kernels for matrix cores alone, and there is no matrix tier for {arch}",
            where="octave.prefill",
            hint="cache_store and decode serve the tokens of a chunk too",
        )
    return tier


def _matrix_tier(arch: str, op: str) -> str | None:
    """None for a chip without one. A chip that has no kernels at all is refused here, where the caller would advise to
    use others of its kernels."""
    reason = refusal(arch)
    if reason:
        raise wrong_request(reason, where=op, hint=ON_CPU)
    return ARCHS[arch].matrix_tier


def check_block_size(kind: str, tier: str, block_size: int) -> None:
    """Raises OctaveError when ``tier`` of a kind cannot read a cache of this block size."""
    owner = KINDS[kind]
    multiple = owner.tier(tier).block_size_multiple
    if block_size % multiple:
        portable = any(other.name == PORTABLE for other in owner.tiers)
        raise wrong_request(
            f"block size {block_size} is no multiple of {multiple}, as the {tier} tier needs",
            where=f"octave.{owner.op}",
            hint=("pass use_wmma=False, or " if portable else "") + "choose another block size",
        )


def no_matrix_tier(where: str) -> OctaveError:
    return wrong_request(f"there is no matrix tier for {where}", where="use_wmma", hint="pass use_wmma=False")
