"""Sizes and strides make no new kernels: the count over the suite's cases stays small."""

from __future__ import annotations

import pytest

from equivalence.runs.specializations import MOST, main


def test_no_shape_of_a_profile_makes_a_new_kernel(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--ops", "add", "softmax", "--profile", "quick"]) == 0
    lines = capfd.readouterr().out.splitlines()
    counts = {line.split()[0]: int(line.split()[1]) for line in lines[:2]}
    assert set(counts) == {"add", "softmax"}
    assert all(0 < count <= MOST for count in counts.values())
