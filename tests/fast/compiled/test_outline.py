"""What a plan says of itself: steps, bytes and lifetimes, as text and as a picture."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

from fast import CompiledSession, SessionError
from fast.compiled.shown.outline import Memory, Outline, Outlines, Step

STEPS = (Step("add", ("a", "b"), ("x",)), Step("mul <2>", ("x", "x"), ("y",)))
MEMORY = {
    "a": Memory(8, 0, 1, lent=True),
    "b": Memory(4, 0, 1, lent=True),
    "x": Memory(16, 0, 1),
    "y": Memory(32, 1, 1),
}


def distance(ops: Any, w: Any, b: Any, x: Any, y: Any) -> Any:
    return ops.mse_loss(ops.linear(x, w, b), y)


def test_bytes_are_counted_as_often_as_they_are_named() -> None:
    part = Outline("a plan", STEPS, MEMORY)
    assert (part.moved, part.peak) == (8 + 4 + 16 + 16 + 16 + 32, 48)
    assert str(Outlines((part,))).splitlines()[1:3] == [
        "  2 steps; 92 bytes read and written; 48 at once, beside 12 lent",
        "    0  add: a, b -> x",
    ]


def test_a_picture_has_a_bar_for_each_buffer_over_its_steps() -> None:
    text = Outlines((Outline("a plan", STEPS, MEMORY),) * 2).svg()
    bars = [e for e in ElementTree.fromstring(text).iter() if e.tag.endswith("rect")]
    widths = [float(bar.attrib["width"]) for bar in bars]
    assert widths == [50.0, 50.0, 50.0, 24.0] * 2
    assert len({(bar.attrib["x"], bar.attrib["y"]) for bar in bars}) == 8, "no bar hides another"
    assert "mul &lt;2&gt;" in text
    assert Outlines(()).svg().endswith("</svg>")


def test_a_replay_shows_what_it_keeps_and_what_it_drops() -> None:
    session = CompiledSession(provider="aten")
    with pytest.raises(SessionError, match="no program was run yet"):
        session.plan()
    w = session.param(torch.ones(2, 4), name="w")
    b = session.param(torch.zeros(2), name="b")
    for _ in range(2):
        session.run(distance, [w, b], [torch.ones(3, 4), torch.ones(3, 2)])
        (part,) = session.plan().parts
        names = {name for step in part.steps for name in (*step.reads, *step.writes)}
        assert {"w", "b", "input 0"} <= names <= {*part.memory}
        assert all(re.fullmatch(r"\w[\w ]*( \(\w+\))?", name) for name in names)
    session.collect()
    with pytest.raises(SessionError, match="no program was run yet"):
        session.plan()
