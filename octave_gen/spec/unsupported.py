"""Keys that people expect in a spec of attention kernels and that are refused, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Unsupported:
    """A feature or value that no spec can ask for, and the keys under which one might look for it."""

    name: str
    keys: tuple[str, ...]
    reason: str


UNSUPPORTED = (
    Unsupported(
        "sliding window attention",
        ("sliding_window", "sliding_windows", "window", "window_size", "local_attention", "attention_chunk_size"),
        "decode reads every token from the first to the query's length and skips none by distance",
    ),
    Unsupported(
        "ALiBi",
        ("alibi", "use_alibi", "alibi_slopes"),
        "no kernel adds a position bias to the scores",
    ),
    Unsupported(
        "attention sinks",
        ("sinks", "sink", "attention_sinks", "num_sinks", "sink_tokens", "has_sinks"),
        "the softmax runs over the cached tokens alone and takes no further logit",
    ),
    Unsupported(
        "soft-capping",
        ("soft_cap", "softcap", "soft_capping", "softcapping", "logits_soft_cap", "attn_logit_softcapping"),
        "scores are scaled by sm_scale and go to the softmax as they are",
    ),
    Unsupported(
        "encoder attention",
        ("encoder_only", "encoder_attention", "encoder_decoder", "cross_attention", "bidirectional"),
        "the cache is that of a decoder: a query sees the tokens up to its own length and none behind it",
    ),
    Unsupported(
        "a choice of mask",
        ("causal", "mask", "attn_mask", "attn_type"),
        "decode is always causal: a query sees the tokens up to its own length and none behind it",
    ),
    Unsupported(
        "full rotary",
        ("full_rotary", "rotary_full"),
        "rotary_dims = head_size says so, and only the compact dtypes hold it: block K gives the rotary dims more bits "
        "than the rest",
    ),
    Unsupported(
        "a V head size of its own",
        ("v_head_size", "v_head_dim", "value_head_size", "k_head_size", "qk_head_dim"),
        "a slot holds K and V of one head_size",
    ),
    Unsupported(
        "MLA",
        ("mla", "use_mla", "kv_lora_rank", "latent_dim"),
        "a slot holds K and V of one kv head, and a latent cache has neither",
    ),
    Unsupported(
        "a fixed block size",
        ("block_size", "block_sizes", "page_size"),
        "every kernel takes the block size at run time",
    ),
    Unsupported(
        "a fixed number of heads or splits",
        ("num_heads", "num_kv_heads", "kv_heads", "num_kv_splits", "kv_splits"),
        "every kernel takes these counts at run time",
    ),
    Unsupported(
        "bit widths by number",
        ("k_bits", "v_bits", "kv_bits", "bits", "fmt"),
        "the cache dtype states them: octave_k3v4 has 3-bit K and 4-bit V; name it in cache_dtypes",
    ),
    Unsupported(
        "a choice of tier",
        ("tier", "tiers", "use_wmma"),
        "every tier that a chip offers is built, and the caller chooses at run time",
    ),
)

_BY_KEY = {key: feature for feature in UNSUPPORTED for key in feature.keys}


def unsupported(key: str) -> str | None:
    """Why a spec cannot have ``key``, or None for a key that means nothing here; case and dashes do not matter."""
    feature = _BY_KEY.get(key.lower().replace("-", "_"))
    return f"not supported ({feature.name}): {feature.reason}" if feature else None
