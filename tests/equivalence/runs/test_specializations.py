"""Sizes and strides make no new kernels: the count over the suite's cases stays small."""

from __future__ import annotations

import re

import pytest

from equivalence.runs.specializations import main
from fast.binaries.compilation import MOST_PER_OP


def test_no_shape_of_a_profile_makes_a_new_kernel(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--ops", "add", "adam", "softmax", "--profile", "quick"]) == 0
    lines = capfd.readouterr().out.splitlines()
    counts = {line.split()[0]: re.findall(r"(\d+) in (\w+)", line) for line in lines[:2]}
    assert set(counts) == {"add", "softmax"}
    for found in counts.values():
        assert [dtype for _, dtype in found] == ["fp32", "bf16", "fp16"]
        assert all(0 < int(number) <= MOST_PER_OP for number, _ in found)
