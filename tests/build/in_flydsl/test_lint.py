from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from octave_gen.build.flydsl import lint
from octave_gen.errors import OctaveError


def lines(source: str) -> list[str]:
    return list(lint.problems(dedent(source), "k.py"))


@pytest.mark.parametrize(
    "decorator",
    [
        "@flyc.kernel",
        "@flyc.kernel(name='k', known_block_size=[64, 1, 1])",
        "@kernel",
        "@flyc.jit",
        "@jit()",
        "@other_name",
        "@kept",
    ],
)
@pytest.mark.parametrize(
    "head", ["if n > i:", "for j in range(n):", "while n:", "with scope():", "if i:\n        pass\n    else:"]
)
def test_return_under_control_flow(decorator: str, head: str) -> None:
    source = (
        "from flydsl.compiler import jit, kernel, kernel as other_name\nkept = flyc.kernel\n\n"
        f"{decorator}\ndef work(n, i):\n    {head}\n        return\n    store(i)\n"
    )
    (problem,) = lines(source)
    assert problem.startswith("k.py:")
    assert problem.endswith(" in work")


def test_functions_inside_are_rewritten_too() -> None:
    source = """
    def make(request):
        @flyc.kernel(name=request.symbol)
        def kernel(x, n):
            def inner(i):
                if i < n:
                    return 1
                return 2
            x[0] = inner(n)
        return kernel
    """
    assert lines(source) == ["k.py:7 in kernel"]


def test_a_function_that_is_wrapped_by_a_call() -> None:
    source = """
    def put(x, n):
        if n:
            return
        x[0] = n

    put = flyc.jit(put)
    """
    assert lines(source) == ["k.py:4 in put"]


def test_what_flydsl_leaves_alone_may_return() -> None:
    source = """
    def make(request):
        if request.layout is None:
            return None

        @flyc.kernel
        def kernel(x, n):
            def last(i):
                return i + 1
            if n > 0:
                def deeper(i):
                    return i
                x[0] = deeper(last(n))
            if fx.const_expr(request.head_size == 64):
                return
            for i in fx.range_constexpr(4):
                return
        return kernel

    def plain(codes, bits):
        if bits == 3:
            return codes
        for other in ():
            return other
        return codes
    """
    assert lines(source) == []


def test_static_heads_do_not_hide_others() -> None:
    source = """
    @flyc.kernel
    def kernel(n):
        if const_expr(True):
            if n:
                return
        for i in range_constexpr(4):
            while i < n:
                return
        if const_expr(True) and n:
            return
    """
    assert lines(source) == ["k.py:6 in kernel", "k.py:9 in kernel", "k.py:11 in kernel"]


def test_all_files_are_in_one_report(tmp_path: Path) -> None:
    bad = "@flyc.kernel\ndef kernel(n):\n    if n:\n        return\n"
    files = [tmp_path / "one.py", tmp_path / "two.py"]
    for file in files:
        file.write_text(bad)
    with pytest.raises(OctaveError, match=r"one\.py:4 in kernel\n  two\.py:4 in kernel") as raised:
        lint.check(files)
    assert "opposite condition" in str(raised.value.hint)


def test_no_python() -> None:
    with pytest.raises(OctaveError, match="no Python") as raised:
        lines("def (:\n")
    assert raised.value.where == "k.py:1"
