"""pool: variants run in several processes, which end with their caller and are missed when they die."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from octave_gen.errors import OctaveError
from octave_gen.verify import pool
from octave_gen.verify.cases import ReduceCase, RotateCase
from octave_gen.verify.pool import Task

KINDS = {"rotate": RotateCase(tokens=2, heads=1), "reduce": ReduceCase()}
TASKS = [
    Task("gfx942", f"{kind}_h128_{dtype}_portable_gfx942", (case,))
    for kind, case in KINDS.items()
    for dtype in ("f16", "bf16")
]


@pytest.fixture
def none_left() -> Iterator[None]:
    before = set(multiprocessing.active_children())
    yield
    assert set(multiprocessing.active_children()) == before


def run(out: Path, jobs: int, tasks: list[Task] = TASKS) -> list[tuple[Task, pool.Finished]]:
    return list(pool.run(tasks, {"gfx942": out}, "interpreter", 1, jobs))


@pytest.mark.usefixtures("none_left")
def test_two_processes_find_what_one_finds(small_build: Path) -> None:
    alone, together = run(small_build, 1), run(small_build, 2)
    assert [task for task, _ in alone] == TASKS
    assert sorted(TASKS, key=repr) == sorted((task for task, _ in together), key=repr)
    found = {task: finished.checked for task, finished in together}
    assert {task: finished.checked for task, finished in alone} == found
    assert all(checked.failure is None for checked in found.values())
    assert all(finished.seconds > 0 for _, finished in together)


@pytest.mark.usefixtures("none_left")
def test_what_a_process_cannot_do_is_told(tmp_path: Path) -> None:
    for jobs in (1, 2):
        with pytest.raises(OctaveError, match="there is no library for gfx942"):
            run(tmp_path, jobs)


@pytest.mark.usefixtures("none_left")
def test_the_processes_end_when_the_caller_is_interrupted_and_a_dead_one_is_missed(small_build: Path) -> None:
    before = set(multiprocessing.active_children())
    many = TASKS * 20
    results = pool.run(many, {"gfx942": small_build}, "interpreter", 1, 2)
    with pytest.raises(KeyboardInterrupt), closing(results):  # noqa: PT012
        next(results)
        raise KeyboardInterrupt
    results = pool.run(many, {"gfx942": small_build}, "interpreter", 1, 2)
    with pytest.raises(OctaveError, match="a process that ran a variant died"), closing(results):  # noqa: PT012
        next(results)
        (set(multiprocessing.active_children()) - before).pop().kill()
        list(results)
