"""What FlyDSL drops without a word: a ``return`` under control flow.

FlyDSL rewrites the functions that it decorates, and every function inside them: an ``if`` or a loop becomes a function
of its own, and a ``return`` in it returns from that one. The statements behind it then run for all lanes. Other
functions, which a kernel calls while it is traced, stay plain Python, where a branch on a value of a lane raises an
error. Conditions in ``const_expr`` and loops over ``range_constexpr`` are left as they are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from octave_gen.errors import OctaveError

_DECORATORS = ("kernel", "jit", "device")
_AT_COMPILE_TIME = ("const_expr", "range_constexpr")

_Function = (ast.FunctionDef, ast.AsyncFunctionDef)
_Branch = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.With, ast.Match)


def check(files: Iterable[Path]) -> None:
    """Raises OctaveError naming every ``return`` of ``files`` that FlyDSL would drop."""
    found = [problem for file in files for problem in problems(file.read_text(encoding="utf-8"), file.name)]
    if found:
        raise OctaveError(
            "\n  ".join(["FlyDSL drops `return` under control flow:", *found]),
            where="flydsl",
            hint="write the rest under the opposite condition: `if i < n:` around it",
        )


@lru_cache(maxsize=256)
def problems(text: str, name: str) -> tuple[str, ...]:
    """A line for every ``return`` in the source ``text`` that FlyDSL would drop; raises OctaveError for no Python."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise OctaveError(f"this is no Python: {error.msg}", where=f"{name}:{error.lineno}") from error
    names = _aliases(tree)
    wrapped = {
        argument.id
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and _last_name(call.func, names) in _DECORATORS
        for argument in call.args
        if isinstance(argument, ast.Name)
    }
    found: dict[int, str] = {}
    for function in ast.walk(tree):
        if isinstance(function, _Function) and (_is_rewritten(function, names) or function.name in wrapped):
            for line in _dropped(function, names):
                found[line] = f"{name}:{line} in {function.name}"
    return tuple(found[line] for line in sorted(found))


def _aliases(tree: ast.Module) -> dict[str, str]:
    """What ``from … import name as alias`` and ``alias = module.name`` call a decorator or a condition."""
    wanted = (*_DECORATORS, *_AT_COMPILE_TIME)
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found |= {item.asname: item.name for item in node.names if item.asname and item.name in wanted}
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name | ast.Attribute):
            last = _last_name(node.value, {})
            found |= {target.id: last for target in node.targets if isinstance(target, ast.Name) and last in wanted}
    return found


def _last_name(node: ast.expr, names: dict[str, str]) -> str:
    """``kernel`` of ``flyc.kernel``, ``kernel``, ``flyc.kernel(…)`` and of its aliases."""
    if isinstance(node, ast.Call):
        return _last_name(node.func, names)
    if isinstance(node, ast.Attribute):
        return node.attr
    return names.get(node.id, node.id) if isinstance(node, ast.Name) else ""


def _is_rewritten(function: ast.FunctionDef | ast.AsyncFunctionDef, names: dict[str, str]) -> bool:
    return any(_last_name(decorator, names) in _DECORATORS for decorator in function.decorator_list)


def _dropped(function: ast.AST, names: dict[str, str], under: bool = False) -> Iterator[int]:
    """The lines of ``return`` statements under control flow, those of functions inside included."""
    for node in ast.iter_child_nodes(function):
        if isinstance(node, ast.Return) and under:
            yield node.lineno
        elif isinstance(node, _Function):
            yield from _dropped(node, names)
        else:
            yield from _dropped(node, names, under or (isinstance(node, _Branch) and not _is_static(node, names)))


def _is_static(node: ast.AST, names: dict[str, str]) -> bool:
    head = node.test if isinstance(node, ast.If | ast.While) else node.iter if isinstance(node, ast.For) else None
    return isinstance(head, ast.Call) and _last_name(head, names) in _AT_COMPILE_TIME
