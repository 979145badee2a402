"""Units to sources, and the files that a source depends on. HIP: jinja2 templates with every name checked."""

from __future__ import annotations

import re
import traceback
from functools import lru_cache
from pathlib import Path

import jinja2
import jinja2.meta

from octave_gen import formats, paths
from octave_gen.build.flydsl import sources
from octave_gen.errors import OctaveError
from octave_gen.formats.base import render_c_ints
from octave_gen.kernels.base import FLYDSL, QUERY_DTYPES
from octave_gen.plan import Unit

CPP_SCALARS = {dtype.name: dtype.cpp for dtype in QUERY_DTYPES}

# A header is named by an #include, or by a template that passes its name to a macro.
_HEADER = re.compile(r'"(octave/[^"]+\.h)"')
_TEMPLATE = re.compile(r'{%-?\s*(?:import|include|from|extends)\s+"([^"]+)"')


def include_dir() -> Path:
    """The folder that the generated sources' includes are relative to."""
    return paths.templates() / "include"


def relative_name(path: Path) -> str:
    """A template file's name relative to ``templates/``, another file's relative to the checkout; forward slashes."""
    if path.is_relative_to(paths.templates()):
        return path.relative_to(paths.templates()).as_posix()
    return sources.relative_name(path)


@lru_cache(maxsize=4)
def _environment(folder: Path) -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


@lru_cache(maxsize=64)
def _undeclared(text: str) -> frozenset[str]:
    return frozenset(jinja2.meta.find_undeclared_variables(jinja2.Environment(autoescape=False).parse(text)) - {"loop"})


def _context(unit: Unit) -> dict[str, object]:
    variant = unit.first
    shape = variant.shape
    format_constants = ""
    if shape.cache_dtype is not None and shape.rotary_dims is not None:
        dtype = formats.cache_dtype(shape.cache_dtype)
        family = formats.FAMILIES[dtype.family]
        layout = family.layout(dtype, shape.head_size, shape.rotary_dims)
        format_constants = layout.c_constants() + family.c_constants()
        if shape.encoder is not None:
            format_constants += family.encoder_constants(shape.encoder)
    config = {"head_size": shape.head_size, **variant.tier.constants(shape, variant.arch)}
    return {
        "unit": unit,
        "template": variant.tier.template,
        "format_constants": format_constants,
        "config_constants": render_c_ints(config),
        "cpp_scalar": CPP_SCALARS,
    }


def render_unit(unit: Unit) -> str:
    """The text of a unit's source, of a unit in FlyDSL what decides it besides its kernel module.

    Raises OctaveError naming the template for whatever is wrong with it.
    """
    if unit.language == FLYDSL:
        return sources.text(unit)
    name = unit.first.tier.template
    environment = _environment(paths.templates() / "hip")
    context = _context(unit)
    try:
        for file in _jinja_files(paths.templates() / "hip" / name):
            unknown = _undeclared(_read(file)) - set(context)
            if unknown:
                raise OctaveError(
                    f"unknown name {', '.join(sorted(unknown))}",
                    where=f"templates/{relative_name(file)}",
                    hint=f"templates are given: {', '.join(sorted(context))}",
                )
        text = environment.get_template(name).render(context)
    except jinja2.TemplateSyntaxError as error:
        raise OctaveError(str(error.message), where=f"templates/hip/{error.name or name}:{error.lineno}") from error
    except jinja2.TemplateError as error:
        raise OctaveError(str(error), where=f"templates/hip/{name}, {unit.name}") from error
    except OctaveError:
        raise
    except Exception as error:  # a template's expressions can raise anything
        what = f"the template cannot be rendered: {type(error).__name__}: {error}"
        raise OctaveError(what, where=f"{_place(error, name)}, {unit.name}") from error
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n") + "\n"


def _place(error: Exception, name: str) -> str:
    """The template and the line where ``error`` arose, or no more than the template ``name`` of the unit."""
    root = paths.templates()
    lines = [line for line in traceback.extract_tb(error.__traceback__) if Path(line.filename).is_relative_to(root)]
    if not lines:
        return f"templates/hip/{name}"
    return f"templates/{relative_name(Path(lines[-1].filename))}:{lines[-1].lineno}"


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise OctaveError(f"cannot read a template: {error.strerror}", where=str(file)) from error
    except UnicodeDecodeError as error:
        raise OctaveError(f"a template is no UTF-8: {error.reason} at byte {error.start}", where=str(file)) from error


def _jinja_files(first: Path) -> list[Path]:
    """``first`` and the templates that it names, recursively; each once."""
    found, queue = [], [first]
    while queue:
        file = queue.pop()
        if file not in found:
            found.append(file)
            queue += [file.parent / name for name in _TEMPLATE.findall(_read(file))]
    return found


def template_files(unit: Unit) -> tuple[Path, ...]:
    """Every file whose content decides the unit's code: template, macros and headers, recursively; sorted.

    Of a unit in FlyDSL: kernel module and what it imports.
    """
    if unit.language == FLYDSL:
        return sources.files(unit)
    root = paths.templates()
    found: set[Path] = set(_jinja_files(root / "hip" / unit.first.tier.template))
    queue = [header for file in found for header in _headers(_read(file), root)]
    while queue:
        header = queue.pop()
        if header not in found:
            found.add(header)
            queue += _headers(_read(header), root)
    return tuple(sorted(found))


def _headers(text: str, root: Path) -> list[Path]:
    return [root / "include" / name for name in _HEADER.findall(text)]
