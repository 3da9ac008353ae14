"""Buffers and arenas: one owner, release once, and counters that say so."""

from __future__ import annotations

import gc

import pytest
import torch

from fast import Rejected, Released
from fast.device.arena import ALIGNMENT, Arena, Layout
from fast.device.bridge import upload
from fast.device.buffer import Buffer
from fast.device.counters import counters

CPU = torch.device("cpu")


@pytest.mark.holds("Release a buffer")
@pytest.mark.usefixtures("settled")
def test_release_is_idempotent_and_counted() -> None:
    before = counters.snapshot()
    buffer = upload([[1.0, 2.0], [3.0, 4.0]])
    held = counters.snapshot()
    assert held.live_bytes - before.live_bytes == 16
    assert held.live_buffers - before.live_buffers == 1
    assert held.allocations - before.allocations == 1
    buffer.release()
    buffer.release()
    after = counters.snapshot()
    assert (after.live_bytes, after.live_buffers) == (before.live_bytes, before.live_buffers)
    assert buffer.released
    assert tuple(buffer.shape) == (2, 2)


@pytest.mark.usefixtures("settled")
def test_a_dropped_buffer_is_counted_out() -> None:
    before = counters.live_bytes
    upload([1.0, 2.0])
    gc.collect()
    assert counters.live_bytes == before


@pytest.mark.holds("Release a buffer")
@pytest.mark.parametrize("use", ["tensor", "device", "owned_copy"])
def test_use_after_release_raises(use: str) -> None:
    buffer = upload([1.0])
    buffer.release()
    with pytest.raises(Released, match="was released"):
        getattr(buffer, use)() if use == "owned_copy" else getattr(buffer, use)


@pytest.mark.holds("Copy a buffer into memory of its own")
def test_an_owned_copy_is_independent_and_checks_the_shape() -> None:
    buffer = upload([1.0, 2.0])
    copy = buffer.owned_copy((2,))
    buffer.tensor.zero_()
    buffer.release()
    assert copy.tensor.tolist() == [1.0, 2.0]
    with pytest.raises(Rejected, match=r"shape \(3,\).*shape is \(2,\)"):
        copy.owned_copy((3,))


@pytest.mark.usefixtures("settled")
def test_peak_is_what_lived_at_once() -> None:
    counters.reset_peak()
    start = counters.live_bytes
    first = upload([1.0] * 8)
    first.release()
    second = upload([1.0] * 4)
    assert counters.peak_bytes - start == 32
    second.release()


def test_segments_are_aligned_and_padded_with_zeros() -> None:
    layout = Layout([(3,), (), (0,), (65,), (2, 2)])
    assert [segment.offset for segment in layout.segments] == [0, 64, 128, 128, 256]
    assert layout.total == 320
    arena = Arena(layout, torch.float32, CPU)
    for view in arena.views:
        view.fill_(1.0)
    inside = sum(segment.length for segment in layout.segments)
    assert arena.flat.sum() == inside == 73
    assert all(segment.offset % ALIGNMENT == 0 for segment in layout.segments)


@pytest.mark.usefixtures("settled")
def test_a_slice_of_an_arena_keeps_the_memory() -> None:
    arena = Arena(Layout([(4,)]), torch.float32, CPU)
    before = counters.snapshot()
    slice_ = Buffer(arena.views[0], "a test", in_arena=True)
    assert counters.snapshot() == before
    slice_.release()
    assert counters.snapshot() == before
    assert arena.views[0].tolist() == [0.0] * 4


@pytest.mark.usefixtures("settled")
def test_an_arena_grows_and_keeps_its_contents() -> None:
    layout = Layout([(2,)])
    arena = Arena(layout, torch.float32, CPU)
    arena.views[0].copy_(torch.tensor([1.0, 2.0]))
    old = arena.views[0]
    before = counters.live_buffers
    for _ in range(5):
        layout.append((100,))
    arena.fit()
    assert len(arena.views) == 6
    assert arena.views[0].tolist() == [1.0, 2.0]
    assert all(not view.any() for view in arena.views[1:])
    arena.views[0].zero_()
    assert old.tolist() == [1.0, 2.0]
    assert counters.live_buffers == before
