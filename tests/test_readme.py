"""README.md's Python that runs on any machine does run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

README = Path(__file__).parents[1] / "README.md"


@pytest.fixture(scope="module")
def names() -> dict[str, torch.Tensor]:
    """What the CPU example leaves."""
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    (example,) = [block for block in blocks if "sign_tensor" in block]
    left: dict[str, torch.Tensor] = {}
    torch.manual_seed(0)
    exec(example, left)
    return left


def test_the_cpu_example_attends_to_what_it_stored(names: dict[str, torch.Tensor]) -> None:
    weights = torch.softmax(names["query"][0].float() @ names["key"][:, 0].float().T * 128**-0.5, dim=-1)
    exact = weights @ names["value"][:, 0].float()
    error = (names["out"][0].float() - exact).norm() / exact.norm()
    assert 0 < error < 0.4  # 3 bits per value


def test_its_chunk_attends_to_the_stored_tokens_and_causally_to_itself(names: dict[str, torch.Tensor]) -> None:
    key, value, result = (names[name].clone() for name in ("key", "value", "result"))
    for x, k_layout in ((key, True), (value, False), (result, False)):
        torch.ops.octave.rotate(x, names["signs"], k_layout, False)  # q, k and v are left rotated
    k, v = (torch.cat(pair)[:, 0].float() for pair in ((key, names["k"]), (value, names["v"])))
    hidden = torch.arange(48) > 40 + torch.arange(8).unsqueeze(-1)
    scores = (names["q"].float() @ k.T * 128**-0.5).masked_fill(hidden.unsqueeze(1), -torch.inf)
    exact = torch.softmax(scores, dim=-1) @ v
    error = (result.float() - exact).norm() / exact.norm()
    assert 0 < error < 0.4
