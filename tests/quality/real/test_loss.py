from __future__ import annotations

import pytest
import torch

from octave_gen.quality.real.loss import ROWS, WORDS, token_losses


@pytest.mark.parametrize("scale", [0.1, 100.0])
@pytest.mark.parametrize(("tokens", "words"), [(1, 3), (5, WORDS + 17), (ROWS + 3, 11)])
def test_agrees_with_the_softmax_over_all_words(tokens: int, words: int, scale: float) -> None:
    """scale 100: logits of some hundreds, whose exponentials alone are beyond fp32."""
    generator = torch.Generator().manual_seed(words)
    hidden = torch.randn(tokens, 16, generator=generator) * scale
    vocabulary = torch.randn(words, 16, generator=generator)
    targets = torch.randint(words, (tokens,), generator=generator)
    wanted = -(hidden.double() @ vocabulary.double().T).log_softmax(-1)[torch.arange(tokens), targets]
    found = token_losses(hidden, vocabulary, targets)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5 * max(1.0, 4 * scale))
