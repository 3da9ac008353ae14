"""A name has everything that an artifact depends on, and nothing that varies from call to call.

Nothing is compiled: whoever asks for an artifact is stopped, and its name is noted.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from fast import CompiledSession
from fast.compiled import artifacts, inductor, naming
from tools.tree import ROOT

pytestmark = pytest.mark.slow


class Stopped(Exception):
    """Raised where an artifact would be found or made."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def stop(key: str, make: object) -> bytes:
    raise Stopped(key)


@pytest.fixture(autouse=True)
def _stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "fetch", stop)


def name(
    p: float | None = None, *, rows: int = 3, precision: str = "fp32", frozen: int | None = None,
    weight: tuple[float, ...] | None = None, shift: float = 0.0, held: float = 2.0,
    update: str = "sgd_step", rate: float = 0.5, **hypers: Any,
) -> str:  # fmt: skip
    """Return the name of the artifact of a training step."""

    def program(ops: Any, w: Any, b: Any, x: Any, labels: Any) -> Any:
        hidden = ops.linear(x, w, b) * ops.const([held] * 4)
        if p is not None:
            hidden = ops.dropout(hidden, p=p, seed=3)
        return ops.cross_entropy(hidden, labels, weight=weight)

    session = CompiledSession(provider="aten", engine="inductor", precision=precision)
    params = [session.param(np.ones((4, 2)) + shift), session.param(np.ones(4))]
    for k, parameter in enumerate(params):
        parameter.requires_grad = k != frozen
    x = np.arange(2.0 * rows).reshape(rows, 2) + shift
    loss = session.run(program, params, [x, np.arange(rows) % 4])
    with pytest.raises(Stopped) as stopped:
        getattr(session, update)(rate, grads=session.backward(loss), **hypers)
    return stopped.value.key


CHANGED: list[dict[str, Any]] = [
    {"p": 0.5},
    {"p": 0.25},
    {"p": 0.5 + 2.0**-20},
    {"rows": 2},
    {"precision": "fp64"},
    {"precision": "bf16"},
    {"frozen": 0},
    {"frozen": 1},
    {"momentum": 0.5},
    {"weight_decay": 0.5},
    {"max_norm": 1.0},
    {"grad_scale": 2.0},
    {"update": "adamw_step"},
    {"update": "adam_step"},
    {"weight": (1.0, 2.0, 3.0, 4.0)},
    {"weight": (1.0, 2.0, 3.0, 5.0)},
    {"weight": (1.0, 2.0, 3.0, 5.0 + 2.0**-20)},
]


def test_every_change_of_a_step_gives_another_name() -> None:
    names = [name(), *(name(**change) for change in CHANGED)]
    assert len({*names}) == len(names)


@pytest.mark.parametrize(
    "same",
    [{}, {"shift": 1.0}, {"rate": 0.125}, {"held": 3.0}],
    ids=["again", "data", "rate", "const"],
)
def test_what_is_data_gives_the_same_name(same: dict[str, Any]) -> None:
    assert name(**same) == name()


def test_what_code_is_made_for_and_by_is_part_of_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [name()]
    changes: list[tuple[Any, str, Any]] = [
        (torch, "__version__", f"{torch.__version__}.1"),
        (torch, "get_num_threads", lambda: 1000),
        (torch.backends.cpu, "get_cpu_capability", lambda: "DEFAULT"),
        (naming, "instructions", lambda: "flags: fpu"),
        (naming.platform, "machine", lambda: "riscv64"),
    ]
    for place, attribute, value in changes:
        with monkeypatch.context() as patch:
            patch.setattr(place, attribute, value)
            names.append(name())
    for option, value in (("cpp.threads", 2), ("pattern_matcher", True), ("another", 1)):
        with monkeypatch.context() as patch:
            patch.setitem(inductor.OPTIONS, option, value)
            names.append(name())
    assert len({*names}) == len(names)
    assert name() == names[0]


TWO = torch.tensor([1.0, 2.0])


def first(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    return [x * y - x]


DIFFERENT: list[Any] = [
    first,
    lambda x, y: [x * y - y],
    lambda x, y: [x * y + x],
    lambda x, y: [torch.sub(x * y, x, alpha=2)],
    lambda x, y: [x * y - x, x],
    lambda x, y: [x, x * y - x],
    lambda x, y: [torch.sub(x * y, x, out=y)],
    lambda x, y: [x * TWO - x],
    lambda x, y: [x * (TWO + 1) - x],
    lambda x, y: [x * torch.tensor([1.0, 2.0]) - x],
    lambda x, y: [x * torch.tensor([1.0, 3.0]) - x],
    lambda x, y: [x[:1] * y - x],
    lambda x, y: [x[1:] * y - x],
]
"""Functions that differ in one call, argument, constant or result."""


def test_what_a_function_calls_tells_it_from_others_and_its_numbers_do_not() -> None:
    def called_by(function: Any, shift: float = 0.0) -> str:
        return naming.noted(function, [torch.ones(2) + shift, torch.ones(2) - shift]).text

    texts = [called_by(function) for function in DIFFERENT]
    assert len({*texts}) == len(texts)
    assert [called_by(function, 0.5) for function in DIFFERENT] == texts


def test_what_is_written_down_otherwise_is_part_of_the_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = name()
    monkeypatch.setattr(naming, "REWRITTEN", {})
    assert name() != before


PRINTING = """
from fast.compiled import artifacts
from tests.fast.compiled.test_naming import name, stop
artifacts.fetch = stop
print(name(), name(weight=(1.0, 2.0, 3.0, 4.0)), name(update="adamw_step"))
"""


@pytest.mark.full
@pytest.mark.parametrize("seed", ["0", "1"])
def test_another_process_has_the_same_names(seed: str) -> None:
    found = subprocess.run(
        [sys.executable, "-c", PRINTING],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    ours = [name(), name(weight=(1.0, 2.0, 3.0, 4.0)), name(update="adamw_step")]
    assert found.stdout.split() == ours
