"""README.md's Python that runs on any machine does run."""

from __future__ import annotations

import re
from pathlib import Path

import torch

README = Path(__file__).parents[1] / "README.md"


def test_the_cpu_example_attends_to_what_it_stored() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    (example,) = [block for block in blocks if "sign_tensor" in block]
    names: dict[str, torch.Tensor] = {}
    torch.manual_seed(0)
    exec(example, names)
    weights = torch.softmax(names["query"][0].float() @ names["key"][:, 0].float().T * 128**-0.5, dim=-1)
    exact = weights @ names["value"][:, 0].float()
    error = (names["out"][0].float() - exact).norm() / exact.norm()
    assert 0 < error < 0.4  # 3 bits per value
