"""Who imports flydsl, and that ``unstable`` alone uses names that it does not promise to keep."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import util
from pathlib import Path

import pytest

from octave_gen import paths

ROOM = paths.PACKAGE / "kernels" / "flydsl"
SHIM = ROOM / "unstable.py"
WITHOUT_IT = {"__init__.py", "tiers.py", "request.py"}
MODULES = {"flydsl.compiler": "flyc", "flydsl.expr": "fx"}
"""What kernels import, and how they call it."""
SUBMODULES = ("gpu", "math", "rocdl")
"""Of flydsl.expr."""


def importers() -> set[Path]:
    """The modules that may import flydsl: the kernels' and the one that compiles them."""
    return {paths.PACKAGE / "build" / "flydsl" / "unit.py", *(f for f in ROOM.glob("*.py") if f.name not in WITHOUT_IT)}


def imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Module and alias of ``import … as …``, and of ``from … import …`` each name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((item.name, item.asname or "") for item in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((f"{node.module}.{item.name}", item.asname or "") for item in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            yield ast.unparse(node.args[0]).strip("'\""), ""


def of_flydsl(tree: ast.AST) -> set[tuple[str, str]]:
    return {found for found in imported(tree) if found[0].partition(".")[0] == "flydsl"}


def foreign_private(tree: ast.AST) -> set[str]:
    """Attributes with a leading underscore that the module does not define itself."""
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr.startswith("_")}
    return {name for name in used - own if not name.startswith("__")}


def chains(tree: ast.AST) -> set[tuple[str, ...]]:
    """``fx.math.fma`` and the like, word by word, as far as the names go."""
    found = set()
    for node in ast.walk(tree):
        words: list[str] = []
        while isinstance(node, ast.Attribute):
            words.append(node.attr)
            node = node.value
        if words and isinstance(node, ast.Name) and node.id in MODULES.values():
            found.add((node.id, *reversed(words)))
    return found


def promised(file: Path) -> set[str]:
    """A module's ``__all__``, without importing it."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    raise AssertionError(f"{file} has no __all__")


def promises() -> set[str]:
    """What ``flyc`` and ``fx`` have that flydsl's ``__all__`` lists name."""
    found = util.find_spec("flydsl")
    assert found is not None
    assert found.submodule_search_locations is not None
    root = Path(found.submodule_search_locations[0])
    expr = ast.parse((root / "expr" / "__init__.py").read_text(encoding="utf-8"))
    starred = [n.module for n in expr.body if isinstance(n, ast.ImportFrom) and n.names[0].name == "*"]
    names = {f"flyc.{name}" for name in promised(root / "compiler" / "__init__.py")}
    names |= {f"fx.{name}" for module in starred for name in promised(root / "expr" / f"{module}.py")}
    for module in SUBMODULES:
        file = root / "expr" / f"{module}.py"
        inside = promised(file if file.is_file() else file.with_suffix("") / "__init__.py")
        names |= {f"fx.{module}", *(f"fx.{module}.{name}" for name in inside)}
    return names


def test_flydsl_is_imported_by_kernels_alone() -> None:
    allowed = importers()
    assert SHIM in allowed
    for file in sorted(paths.PACKAGE.rglob("*.py")):
        found = of_flydsl(ast.parse(file.read_text(encoding="utf-8")))
        if file not in allowed:
            assert not found, file
        elif file != SHIM:
            assert found <= set(MODULES.items()), file


def test_private_names_are_in_one_module() -> None:
    for file in importers() - {SHIM}:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        assert not foreign_private(tree), file
        dunders = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) if node.name[:2] == "__"}
        assert dunders <= {"__init__"}, f"{file}: a protocol of flydsl's"
    shim = ast.parse(SHIM.read_text(encoding="utf-8"))
    assert {"flydsl._mlir.ir"} < {name for name, _ in of_flydsl(shim)}
    assert "_source_ir" in foreign_private(shim)


def test_kernels_use_what_flydsl_promises(flydsl: None) -> None:
    known = promises()
    for file in sorted(importers()):
        for words in chains(ast.parse(file.read_text(encoding="utf-8"))):
            name = ".".join(words[:3] if words[0] == "fx" and words[1] in SUBMODULES else words[:2])
            assert name in known, file


@pytest.mark.parametrize(
    "text",
    [
        "import flydsl._mlir as m",
        "from flydsl._mlir.dialects import llvm",
        "from flydsl.expr import rocdl",
        "import flydsl.expr as other",
        "import importlib; importlib.import_module('flydsl.compiler.protocol')",
    ],
)
def test_other_imports_would_be_seen(text: str) -> None:
    assert not of_flydsl(ast.parse(text)) <= set(MODULES.items())


def test_private_attributes_would_be_seen() -> None:
    assert foreign_private(ast.parse("made = flyc.compile(f)._keepalive")) == {"_keepalive"}
    assert foreign_private(ast.parse("def _own(): pass\nself._own()")) == set()
