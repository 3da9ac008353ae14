"""What adds up under several threads: one artifact and one number of threads give the same bits.

The programs add many rows to few places, which threads could only do atomically, in the order in
which they come by. What Inductor writes is read before anything compiles it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from fast import CompiledSession
from fast.compiled import artifacts, inductor
from tools.tree import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("inductor")]

ROWS, KINDS, WIDTH = 4096, 7, 48
PLACES = np.arange(ROWS) * 5 % KINDS
NUMBERS = np.random.default_rng(0).standard_normal((ROWS, WIDTH)).astype(np.float32)
START = np.random.default_rng(1).standard_normal((KINDS, WIDTH)).astype(np.float32)

ATOMIC = ("atomic_add", "#pragma omp")
FALLS_BACK = ("index_put", "index_add", "scatter", "embedding_dense_backward")
"""What torch's own kernels of these names may do, whose threads add as they come by."""


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def of_embedding(ops: Any, w: Any, x: Any, places: Any) -> Any:
    return ops.sum(ops.square(ops.embedding(places, w) * x))


def of_take(ops: Any, w: Any, x: Any, places: Any) -> Any:
    return ops.sum(ops.square(ops.take(w, places, axis=0) * x))


def of_gather(ops: Any, w: Any, x: Any, places: Any) -> Any:
    row = ops.reshape(w, shape=(KINDS * WIDTH,))
    return ops.sum(ops.square(ops.gather(row, places, axis=0) * ops.sum(x, axes=(1,))))


def of_scatter_add(ops: Any, w: Any, x: Any, places: Any) -> Any:
    return ops.sum(ops.square(ops.scatter_add(w, places, x, axis=0)))


def of_labels(ops: Any, w: Any, x: Any, places: Any) -> Any:
    return ops.cross_entropy(ops.matmul(x, ops.permute(w, axes=(1, 0))), places)


PROGRAMS = (
    of_embedding,
    of_scatter_add,
    *(pytest.param(p, marks=pytest.mark.full) for p in (of_take, of_gather, of_labels)),
)


class Written(Exception):
    """Raised where Inductor has written what a compiler would compile."""


def stepped(program: Callable[..., Any]) -> list[torch.Tensor]:
    """Take some steps by whole artifacts; return what is left."""
    session = CompiledSession(provider="aten", engine="inductor")
    w = session.param(START, name="w")
    losses = []
    for _ in range(3):
        loss = session.run(program, [w], [NUMBERS, PLACES])
        session.adamw_step(1e-2, grads=session.backward(loss))
        losses.append(session.value(loss))
    return [w.value(), torch.stack(losses)]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stop where Inductor has written C++, and return what it has."""
    from torch._inductor.codecache import AotCodeCompiler

    found: list[str] = []

    def stop(graph: object, *texts: str | None, **_: object) -> None:
        found.extend(text for text in texts if text)
        raise Written

    monkeypatch.setattr(AotCodeCompiler, "compile", stop)
    monkeypatch.setattr(artifacts, "fetch", lambda key, make: make())
    return found


def unordered(written: list[str]) -> set[str]:
    """Return what of the code adds in no order: loops that do, and calls that may."""
    lines = "\n".join(written).splitlines()
    assert any("cpp_fused" in line for line in lines)
    calls = [line for line in lines if "aoti_torch_" in line]
    found = {word for word in ATOMIC for line in lines if word in line}
    return found | {name for name in FALLS_BACK for line in calls if name in line}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_nothing_is_added_atomically_where_torch_has_two_threads(
    program: Callable[..., Any], written: list[str]
) -> None:
    with pytest.raises(Exception, match="Written"):
        stepped(program)
    assert unordered(written) == set()


def put(places: torch.Tensor, x: torch.Tensor) -> list[torch.Tensor]:
    """Add rows to places, as no page does on a CPU by this call."""
    return [torch.zeros(KINDS, WIDTH).index_put((places,), x, accumulate=True)]


@pytest.mark.parametrize(("threads", "found"), [(1, set()), (2, {"atomic_add"})])
def test_rows_that_are_put_are_added_in_order(
    threads: int, found: set[str], written: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With fused loops on two threads they would not be, and the search finds that."""
    monkeypatch.setitem(inductor.OPTIONS, "cpp.threads", threads)
    given = [torch.from_numpy(PLACES), torch.from_numpy(NUMBERS)]
    with pytest.raises(Exception, match="Written"):
        inductor.built(inductor.traced(put, given), given)
    assert unordered(written) & {"atomic_add", *FALLS_BACK} == found


def test_the_search_finds_what_two_threads_would_do(
    written: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(inductor.OPTIONS, "cpp.threads", 2)
    with pytest.raises(Exception, match="Written"):
        stepped(of_embedding)
    assert "atomic_add" in unordered(written)


AGAIN = """
import sys
import torch
from tests.fast.compiled.background import test_determinism as own
torch.set_num_threads(int(sys.argv[1]))
for _ in range(3):
    for program in (own.of_embedding, own.of_labels):
        print(*(t.numpy().tobytes().hex() for t in own.stepped(program)))
"""


@pytest.mark.full
@pytest.mark.parametrize("threads", [1, 2])
def test_an_artifact_repeats_itself(threads: int, tmp_path: Any) -> None:
    """Three times in each of two processes: the same bits."""
    runs = [
        subprocess.run(
            [sys.executable, "-c", AGAIN, str(threads)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), artifacts.VARIABLE: str(tmp_path)},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout.splitlines()
        for _ in range(2)
    ]
    first, second = runs
    assert first == second and len(first) == 6
    assert first[:2] == first[2:4] == first[4:] and first[0] != first[1]
