"""A model on the CPU whose attention is this project's: what enters each layer's cache can be seen and replaced."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from octave_gen.errors import OctaveError
from octave_gen.quality.real.attention import attend
from octave_gen.quality.real.loss import token_losses

Cache = Callable[[int, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""(layer, query [q_heads, tokens, head], key, value [kv_heads, tokens, head]) -> the key and value that queries see."""

AGREEMENT: Final = 1e-3
"""Largest difference of logits to the attention of transformers, which sums in another order; logits reach 30."""
_NAME: Final = "octave_quality"


def exact(layer: int, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """The cache that keeps what it is given."""
    return key, value


class Model:
    """A causal language model of transformers in fp32, without a cache: it reads a whole text in one call."""

    def __init__(self, weights: Path) -> None:
        """weights: a GGUF file."""
        from transformers import AutoModelForCausalLM
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

        ALL_ATTENTION_FUNCTIONS.register(_NAME, self._attention)
        self._cache: Cache = exact
        self._model: Any = AutoModelForCausalLM.from_pretrained(
            weights.parent, gguf_file=weights.name, dtype=torch.float32, attn_implementation=_NAME
        ).eval()

    @property
    def config(self) -> Any:
        return self._model.config

    @property
    def sm_scale(self) -> float:
        scale: float = self.config.query_pre_attn_scalar**-0.5
        return scale

    def window(self, layer: int) -> int | None:
        """How many tokens, its own included, a query of the layer sees; None: all up to its own."""
        sliding = self.config.layer_types[layer] == "sliding_attention"
        return int(self.config.sliding_window) if sliding else None

    def rope_base(self, layer: int) -> float:
        return float(self.config.rope_parameters[self.config.layer_types[layer]]["rope_theta"])

    @torch.no_grad()
    def read(self, ids: Tensor, cache: Cache) -> Tensor:
        """The last hidden states: int64 [tokens] -> fp32 [tokens, dims]."""
        self._cache = cache
        hidden: Tensor = self._model.model(ids.unsqueeze(0), use_cache=False).last_hidden_state[0]
        return hidden

    @torch.no_grad()
    def losses(self, ids: Tensor, cache: Cache) -> Tensor:
        """-log p of each token but the first, in nats: int64 [tokens] -> fp32 [tokens - 1]."""
        return token_losses(self.read(ids, cache)[:-1], self._model.lm_head.weight, ids[1:])

    def check(self, ids: Tensor) -> float:
        """The largest difference of the last 64 tokens' logits to those with transformers' own eager attention.

        OctaveError if it is more than rounding: then the masks, scales or heads here are not the model's.
        """
        words = self._model.lm_head.weight
        ours = self.read(ids, exact)[-64:]
        self._model.set_attn_implementation("eager")
        theirs = self.read(ids, exact)[-64:]
        self._model.set_attn_implementation(_NAME)
        difference = float(((ours - theirs) @ words.detach().T).abs().max())
        if not difference <= AGREEMENT:
            raise OctaveError(f"logits differ from those of transformers' eager attention by {difference:g}")
        return difference

    def _attention(
        self,
        module: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        **_: object,
    ) -> tuple[Tensor, None]:
        """What transformers calls in each layer, for one text, with no mask: [1, heads, tokens, head] each."""
        layer: int = module.layer_idx
        key, value = self._cache(layer, query[0], key[0], value[0])
        out = attend(query[0], key, value, self.sm_scale, self.window(layer))
        return out.transpose(0, 1).unsqueeze(0), None
