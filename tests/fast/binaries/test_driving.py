"""Who goes through the examples of a page leaves the process as it was."""

from __future__ import annotations

from contextlib import closing

from fast.binaries import driving
from fast.kernels.product import TF32


def test_examples_that_are_broken_off_allow_no_tf32() -> None:
    with closing(driving.examples("matmul")) as examples:
        assert any(TF32.get() for _ in examples), "no example of a product allows tf32"
    assert not TF32.get()
