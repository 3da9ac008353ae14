"""The number of threads and the engines of its updates, which a checkpoint tells of."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from fast import CompiledSession, OtherThreads, checkpoint
from fast.checkpoint.snapshot import read
from tests.fast.checkpoint.test_checkpoint import (
    hold_the_same,
    refused,
    repack,
    session,
    step,
    unpacked,
)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Have one thread at first, and as many as before at last."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_another_number_of_threads_is_told_and_loads(tmp_path: Path) -> None:
    first, second, file = session(), session(scale=5.0), tmp_path / "c"
    step(first)
    checkpoint.save(file, first)
    assert unpacked(file)[1]["threads"] == 1
    torch.set_num_threads(2)
    said = r"checkpoint .*/c: it was made with 1 of torch's threads, and this process has 2; sums"
    with pytest.warns(OtherThreads, match=said) as told:
        checkpoint.load(file, second)
    assert told[0].filename == __file__
    assert hold_the_same(read(first), read(second))
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checkpoint.load(file, session())


def test_a_file_that_does_not_know_its_threads_is_told_nothing_about(tmp_path: Path) -> None:
    first, file = session(), tmp_path / "c"
    step(first)
    checkpoint.save(file, first)
    tensors, description = unpacked(file)
    del description["threads"]
    repack(file, tensors, description)
    torch.set_num_threads(2)
    checkpoint.load(file, session())


def test_the_engines_of_the_updates_go_on_where_they_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "c"
    eager, first, second = session(), auto(), auto()
    step(first)
    step(first)
    assert first.engines == (("replay", 2),)
    checkpoint.save(file, first)
    for other in (eager, second):
        checkpoint.load(file, other)
    step(second)
    assert second.engines == (("replay", 3),)
    step(eager)
    checkpoint.save(file, eager)
    assert "engines" not in unpacked(file)[1]
    checkpoint.load(file, second)
    assert second.engines == (), "an engine that is fixed is not kept"


def auto() -> CompiledSession:
    s = CompiledSession(provider="aten", device="cpu", engine="auto")
    s.param(torch.linspace(-1, 1, 6).reshape(2, 3), name="w")
    s.param(torch.linspace(1, 2, 3), name="layers/b")
    return s


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda d: d.update(threads=0), "threads: a number of threads is at least 1, got 0"),
        (lambda d: d.update(threads="1"), "threads: a JSON int is needed"),
        (lambda d: d.update(engines={}), "engines: a JSON list is needed"),
        (lambda d: d.update(engines=["replay"]), "engines: a JSON list is needed"),
        (lambda d: d.update(engines=[["replay", 0]]), "engines: a turn is a name and a number"),
        (lambda d: d.update(engines=[["replay", True]]), "engines: a turn is a name and a number"),
        (lambda d: d.update(engines=[["replay"]]), "engines: a turn is a name and a number"),
    ],
)
def test_what_a_part_cannot_say_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], expected: str
) -> None:
    first, file = session(), tmp_path / "c"
    step(first)
    checkpoint.save(file, first)
    tensors, description = unpacked(file)
    change(description)
    repack(file, tensors, description)
    assert refused(file, session()).startswith(expected)
