from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_units import compile_texts

from octave_gen.build import toolchain
from octave_gen.errors import WRONG_REQUEST, OctaveError

KERNEL = """\
extern "C" __attribute__((global)) void kernel(float* x, float a, float b, float c) {{
  (void)a, (void)b, (void)c;
  {body}
}}
"""


def code_of(bodies: dict[str, str], folder: Path, arch: str = "gfx942") -> dict[str, bytes]:
    """The code objects of one kernel with each of ``bodies``, compiled with the flags of all kernels."""
    texts = {name: KERNEL.format(body=body) for name, body in bodies.items()}
    return compile_texts(texts, folder, arch)


def test_arithmetic_flags_are_honoured(tmp_path: Path) -> None:
    made = code_of(
        {
            "plain": "*x = a * b + c;",
            "off": "{\n#pragma clang fp contract(off)\n*x = a * b + c; }",
            "fast": "{\n#pragma clang fp contract(fast)\n*x = a * b + c; }",
            "explicit": "*x = __builtin_fmaf(a, b, c);",
            "infinite": "*x = __builtin_isinf(a) ? b : c;",
            "ignored": "*x = c;",
            "divided": "*x = a / b;",
            "reciprocal": "*x = a * __builtin_amdgcn_rcpf(b);",
        },
        tmp_path,
    )
    assert made["plain"] == made["off"] != made["fast"]
    assert made["explicit"] == made["fast"]
    assert made["infinite"] != made["ignored"]
    # A correctly rounded division is a dozen instructions, an approximate one two.
    assert len(made["divided"]) - len(made["reciprocal"]) >= 40


def test_code_does_not_depend_on_the_folder(tmp_path: Path) -> None:
    header = "inline constexpr const char* kFile = __FILE__;\n"
    text = '#include "h.h"\n__attribute__((device)) const char* volatile file = kFile;\n' + KERNEL.format(
        body="*x = a;"
    )
    made = []
    for name in ("one", "another/one"):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "h.h").write_text(header)
        made.append(compile_texts({"k": text}, folder)["k"])
    assert made[0] == made[1]
    assert str(tmp_path).encode() not in made[0]


def test_machine_headers_are_not_seen(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="file not found"):
        compile_texts({"k": "#include <stdint.h>\n"}, tmp_path)


def test_flags_are_free_of_paths() -> None:
    flags = toolchain.device_flags("gfx1100")
    assert "--offload-arch=gfx1100" in flags
    assert not [flag for flag in flags if "/" in flag]
    assert set(flags) == {*toolchain.DEVICE_FLAGS, "--offload-arch=gfx1100"}


def test_ziglang_is_found() -> None:
    compiler = toolchain.find("ziglang")
    assert compiler.version.startswith("clang version ")
    assert "ziglang" in compiler.version
    assert len(compiler.identity) == 64
    assert compiler.command[0] not in compiler.version
    assert compiler == toolchain.find("ziglang")


def test_unknown_compiler() -> None:
    with pytest.raises(OctaveError, match="did you mean ziglang") as caught:
        toolchain.find("zigland")
    assert caught.value.exit_code == WRONG_REQUEST
    assert "rocm" in str(caught.value.hint)


def test_missing_ziglang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "find_spec", lambda name: None)
    with pytest.raises(OctaveError, match="not installed") as caught:
        toolchain.find("ziglang")
    assert "install the Python package ziglang" in str(caught.value.hint)


def test_missing_clang_22(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OctaveError, match="clang-22 is not on PATH") as caught:
        toolchain.find("clang-22")
    assert "lld-22" in str(caught.value.hint)


def test_missing_rocm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    with pytest.raises(OctaveError, match="no ROCm compiler") as caught:
        toolchain.find("rocm")
    assert str(tmp_path) in str(caught.value.where)
    assert "ROCM_PATH" in str(caught.value.hint)


def stand_in(folder: Path, version: str, lld: str | None = "lld") -> None:
    """A clang-22 that can say its version and where its linker is."""
    folder.mkdir()
    answer = f"{folder}/{lld}" if lld else "lld"
    clang = f'#!/bin/sh\ncd "${{0%/*}}"\ncase $1 in --version) echo "{version}";; *) cat linker;; esac\n'
    (folder / "linker").write_text(answer + "\n")
    for name, text in {"clang-22": clang, **({lld: "#!/bin/sh\n"} if lld else {})}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)


def test_identity_is_of_content_not_of_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for name, version in (("one", "clang version 22.1.8"), ("two", "clang version 22.1.8"), ("three", "clang 22.1.9")):
        stand_in(tmp_path / name, version)
        monkeypatch.setenv("PATH", f"{tmp_path / name}{os.pathsep}{os.defpath}")
        found.append(toolchain.find("clang-22"))
    assert found[0] == replace(found[1], command=found[0].command)
    assert found[0].command != found[1].command
    assert found[2].identity != found[0].identity
    (tmp_path / "three" / "lld").write_text("#!/bin/sh\n# another linker\n")
    assert toolchain.find("clang-22").identity != found[2].identity


def test_compiler_without_linker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path / "bin", "clang version 22.1.8", lld=None)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.defpath}")
    with pytest.raises(OctaveError, match="no linker") as caught:
        toolchain.find("clang-22")
    assert "lld-22" in str(caught.value.hint)


def test_compiler_that_cannot_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "clang-22"
    broken.write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.defpath}")
    with pytest.raises(OctaveError, match="status 3: broken"):
        toolchain.find("clang-22")
