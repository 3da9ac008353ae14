"""A launch sees the bytes of its tensors, each where no mistake of another reaches it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from equivalence.races.spans import APART, KEPT, extent, spans


def test_a_tensor_ends_behind_its_last_element() -> None:
    x = torch.zeros(4, 6)
    start = x.data_ptr()
    assert extent(x) == (start, start + 96)
    assert extent(x[:, 1:3]) == (start + 4, start + 84)
    assert extent(x[0].expand(5, 6)) == (start, start + 24)
    assert extent(x[:0]) == (0, 0), "torch gives no address to what has no elements"


def test_views_of_the_same_bytes_move_together_and_others_apart() -> None:
    arena = torch.arange(24.0)
    places = spans({"x": arena[:8], "y": arena[4:12], "z": arena[12:], "none": arena[24:]})
    (x, at_x), (y, at_y), (z, at_z) = (places[name] for name in "xyz")
    assert x == y and at_y - at_x == 16
    assert abs(at_z - at_x) > APART // 2
    for name, first in (("x", 0), ("y", 4), ("z", 12)):
        assert places[name][1] % KEPT == arena[first:].data_ptr() % KEPT
    assert (x.end - x.start, z.end - z.start) == (48, 48)
    assert places["none"][0].read().size == 0


def test_bytes_are_copied_and_put_back() -> None:
    x = torch.tensor([1.0, 2.0, 3.0])
    ((span, _),) = spans({"x": x[1:]}).values()
    held = span.read()
    assert held.view(np.float32).tolist() == [2.0, 3.0]
    held.view(np.float32)[:] = [7.0, 8.0]
    assert x.tolist() == [1.0, 2.0, 3.0]
    span.write(held)
    assert x.tolist() == [1.0, 7.0, 8.0]
    with pytest.raises(ValueError, match="a span of 8 bytes, got 4"):
        span.write(held[:4])
