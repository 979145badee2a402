"""Run by test_host in a process that finds the mock as its HIP runtime; prints JSON.

Launches every op on every arch through the libraries in argv[1], then what must fail; argv[2] is the mock.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from mock_hip import MockHip

import octave_gen
from octave_gen.errors import OctaveError
from octave_gen.ops import sign_tensor, workspace_shape
from octave_gen.runtime import gpu
from octave_gen.runtime.launch import Launch, submit

STREAM = 0x7FFF_1234_5670
TARGETS = {"gfx942": "gfx942:sramecc+:xnack-", "gfx1100": "gfx1100"}

key, value = torch.zeros(7, 2, 128, dtype=torch.float16), torch.zeros(7, 4, 128, dtype=torch.float16)[:, ::2]
cache = torch.zeros(3, 16, 2, 112, dtype=torch.uint8).transpose(1, 2)
slot_mapping = torch.arange(7)
signs = sign_tensor(128)
query = torch.zeros(6, 8, 128, dtype=torch.bfloat16)
out = torch.zeros(6, 8, 256, dtype=torch.bfloat16)[..., :128]
block_table = torch.zeros(2, 3, dtype=torch.int32)
q_to_req, q_to_klen = torch.zeros(6, dtype=torch.int32), torch.ones(6, dtype=torch.int32)
mid_o = torch.zeros(workspace_shape(6, 8, 5, 128))
k, v = torch.zeros(6, 2, 128, dtype=torch.bfloat16), torch.zeros(6, 2, 136, dtype=torch.bfloat16)[..., :128]
bounds, lengths = torch.tensor([0, 4, 6], dtype=torch.int32), torch.tensor([10, 6], dtype=torch.int32)


def launch_all(place: gpu.Place) -> None:
    maps = (block_table, q_to_req, q_to_klen)
    gpu.cache_store(key, value, cache, slot_mapping, signs, signs, 3, "plain", place=place)
    gpu.rotate(key, signs, True, True, place=place)
    gpu.decode(out, query, cache, *maps, mid_o, signs, signs, 0.25, 5, 3, 4, False, place=place)
    gpu.prefill(out, query, k, v, cache, block_table, bounds, lengths, 4, 0.25, 3, mid_o, 5, place=place)


def failure(action: Callable[[], None], **environment: str) -> dict[str, str | None]:
    os.environ.update(environment)
    try:
        action()
    except OctaveError as error:
        return {"what": error.what, "where": error.where, "hint": error.hint}
    finally:
        for name in environment:
            del os.environ[name]
    return {}


def main() -> None:
    libraries = {arch: octave_gen.load(arch, out=sys.argv[1]) for arch in TARGETS}
    tensors = globals()
    names = ("key", "value", "cache", "slot_mapping", "signs", "query", "out", "mid_o", "k", "v", "bounds", "lengths")
    report: dict[str, Any] = {
        "pointers": {name: tensors[name].data_ptr() for name in (*names, "block_table", "q_to_req", "q_to_klen")},
        "records": {},
        "failures": {},
    }
    failures = report["failures"]
    places = {arch: gpu.Place(arch, STREAM) for arch in TARGETS}

    def rotate() -> None:
        gpu.rotate(key, signs, True, True, place=places["gfx942"])

    if len(sys.argv) < 3:
        failures["no hip"] = failure(rotate)
        print(json.dumps(report))
        return
    mock = MockHip(Path(sys.argv[2]))
    failures["no gpu"] = failure(rotate, MOCK_HIP_DEVICES="0")
    failures["other arch"] = failure(rotate, MOCK_HIP_ARCH="gfx1100")
    for arch, place in places.items():
        os.environ["MOCK_HIP_ARCH"] = TARGETS[arch]
        mock.reset()
        launch_all(place)
        launch_all(place)
        report["records"][arch] = mock.record()
    os.environ["MOCK_HIP_ARCH"] = TARGETS["gfx942"]
    failures["launch"] = failure(rotate, MOCK_HIP_LAUNCH_ERROR="719")
    unknown = Launch("rotate_h1_f16_portable_gfx942", (1, 1, 1), 256, bytes(56))
    failures["unknown symbol"] = failure(lambda: submit(libraries["gfx942"], unknown, 0))
    print(json.dumps(report))


main()
