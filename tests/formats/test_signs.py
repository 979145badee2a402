from __future__ import annotations

import numpy as np
import pytest

from octave_gen.errors import OctaveError
from octave_gen.formats.octave.signs import SIGN_SEED, SIGN_WORDS, sign_words


def test_words_are_bit_0_of_the_raw_twister_outputs() -> None:
    bits = np.random.RandomState(SIGN_SEED).randint(0, 2**32, size=512, dtype=np.uint32) & 1
    words = [sum(int(bit) << i for i, bit in enumerate(row)) for row in bits.reshape(16, 32)]
    assert words == list(SIGN_WORDS)


def test_shorter_heads_take_a_prefix() -> None:
    assert sign_words(64) == SIGN_WORDS[:2]
    assert sign_words(256) == SIGN_WORDS[:8]
    assert sign_words(512) == SIGN_WORDS


@pytest.mark.parametrize("head", [0, -64, 33, 544])
def test_heads_without_words(head: int) -> None:
    with pytest.raises(OctaveError, match=f"head_size {head}"):
        sign_words(head)
