"""A plateau: torch's rates metric by metric, the reference's state, checkpoints, refusals."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau

import fast
import spec.op
from fast import checkpoint
from fast.optim.plateau import ENTRIES, Plateau
from spec.optim import plateau as theirs

NAN, INF = math.nan, math.inf


def torchs(lr: float, settings: dict[str, Any]) -> tuple[torch.optim.Optimizer, Any]:
    named = {("min_lr" if name == "minimum" else name): v for name, v in settings.items()}
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=lr)
    return optimizer, ReduceLROnPlateau(optimizer, **named)


def drawn(seed: int) -> tuple[float, dict[str, Any], list[float]]:
    """Draw a rate, settings and metrics, among them NaN and infinities."""
    draw = random.Random(seed)
    settings = {
        "mode": draw.choice(("min", "max")),
        "threshold_mode": draw.choice(("rel", "abs")),
        "factor": draw.choice((0.0, 0.1, 0.5)),
        "patience": draw.randint(0, 3),
        "cooldown": draw.randint(0, 3),
        "threshold": draw.choice((0.0, 1e-4, 0.1)),
        "minimum": draw.choice((0.0, 1e-3)),
        "eps": draw.choice((1e-8, 1e-2)),
    }
    metrics = [draw.choice((NAN, INF, -INF, *range(-4, 5))) + draw.random() for _ in range(40)]
    return draw.choice((0.05, 1.0)), settings, metrics


@pytest.mark.parametrize("seed", range(40))
def test_every_rate_is_torchs_and_every_state_the_references(seed: int) -> None:
    lr, settings, metrics = drawn(seed)
    mine, (optimizer, yours) = Plateau(lr, **settings), torchs(lr, settings)
    page = theirs.Plateau(**settings)
    state = page.start(lr)
    for metric in metrics:
        yours.step(metric)
        state = page.after(state, metric)
        assert mine.step(metric) == optimizer.param_groups[0]["lr"] == state.lr
        found = (yours.best, yours.num_bad_epochs, yours.cooldown_counter)
        assert mine.state[1:] == found == (state.best, state.bad, state.cooldown)


def test_nan_is_never_better() -> None:
    for mode in ("min", "max"):
        plateau = Plateau(1.0, mode=mode, patience=1, factor=0.5)
        assert [plateau.step(NAN) for _ in range(4)] == [1.0, 0.5, 0.5, 0.25]
        assert math.isinf(plateau.state.best)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp64"])
def test_a_state_in_a_buffer_survives_a_checkpoint(precision: str, tmp_path: Path) -> None:
    lr, settings, metrics = drawn(3)
    metrics = [1.0 + metric / 3 for metric in metrics]

    def made() -> tuple[Any, Plateau]:
        s = fast.Session(provider="aten", device="cpu", precision=precision)
        buffer = s.buffer(np.zeros(ENTRIES), name="plateau")
        return s, Plateau(lr, **settings, buffer=buffer)

    (s, plateau), alone = made(), Plateau(lr, **settings)
    for metric in metrics[:20]:
        assert plateau.step(metric) == alone.step(metric)
    checkpoint.save(tmp_path / "run", s)
    again, other = made()
    assert other.state != alone.state
    checkpoint.load(tmp_path / "run", again)
    assert other.state == alone.state
    for metric in metrics[20:]:
        assert other.step(metric) == alone.step(metric)
    assert other.state == alone.state


REFUSED: list[tuple[dict[str, Any], str]] = [
    *(({"lr": bad}, "C1") for bad in (-1.0, NAN, INF)),
    ({"minimum": 2.0}, "C1"),
    *(({name: bad}, "C2") for name in ("patience", "cooldown") for bad in (-1, 1.0, True)),
    *(({"factor": bad}, "C3") for bad in (-0.1, 1.0, NAN)),
    *(({name: bad}, "C3") for name in ("threshold", "eps") for bad in (-0.1, INF, NAN)),
    *(({name: "best"}, "C4") for name in ("mode", "threshold_mode")),
]


@pytest.mark.parametrize(("settings", "label"), REFUSED)
def test_both_sides_refuse_in_the_same_words(settings: dict[str, Any], label: str) -> None:
    given = {"lr": 1.0, **settings}
    with pytest.raises(fast.Rejected, match=f"plateau {label}:") as here:
        Plateau(**given)
    with pytest.raises(spec.op.Rejected) as there:
        theirs.Plateau(**{k: v for k, v in given.items() if k != "lr"}).start(given["lr"])
    assert str(here.value) == str(there.value)


def test_what_is_no_metric_or_no_state_is_refused() -> None:
    plateau = Plateau(1.0)
    with pytest.raises(fast.Rejected, match="plateau: metric must be a number, got 'x'"):
        plateau.step("x")
    assert plateau.state == (1.0, INF, 0, 0)
    s = fast.Session(provider="aten", device="cpu")
    with pytest.raises(fast.Rejected, match="a buffer has 32 entries"):
        Plateau(1.0, buffer=s.buffer(np.zeros(4)))
    with pytest.raises(fast.Rejected, match="holds no bytes of a state"):
        Plateau(1.0, buffer=s.buffer(np.full(ENTRIES, 0.5))).step(1.0)
