"""Declared function errors, confirmed on a small sweep; `python -m equivalence.backends.sweep` is
larger."""

from __future__ import annotations

import numpy as np
import pytest

from equivalence.backends.fast.functions import triton_functions
from equivalence.backends.sweep import (
    CORE,
    DIVISIONS,
    LIBRARIES,
    arguments,
    between,
    sweep,
    sweep_division,
    triton_library,
)
from equivalence.worlds.contract import CORRECTLY_ROUNDED, ulps

COUNT = 4096
ROWS = [(library, name) for library, functions in LIBRARIES.items() for name in functions]


@pytest.mark.parametrize(("library", "name"), ROWS)
def test_libraries_keep_what_is_declared(library: str, name: str) -> None:
    function, declared = LIBRARIES[library][name]
    seen = sweep(name, function, declared, COUNT)
    assert seen.count == COUNT and 0 < seen.fraction <= 1, seen


@pytest.mark.parametrize("library", DIVISIONS)
def test_division_is_correctly_rounded(library: str) -> None:
    seen = sweep_division(DIVISIONS[library], CORRECTLY_ROUNDED, COUNT)
    assert 0 < seen.fraction <= 1, seen


@pytest.mark.parametrize("name", sorted(triton_library()))
def test_kernels_keep_what_they_declare(name: str) -> None:
    function, declared = triton_library()[name]
    seen = sweep(name, function, declared, COUNT)
    assert 0 < seen.fraction <= 1, seen


def test_a_declaration_that_is_too_good_is_refuted() -> None:
    assert sweep("exp", np.exp, ulps(0.6, "too good"), COUNT).fraction > 1
    assert sweep("log", lambda x: np.log(x) * np.float32(1 + 2**-20), ulps(1.0, ""), 99).error > 9


def test_arguments_cover_their_intervals() -> None:
    assert between(1.0, 2.0, 3).tolist() == [1.0, 1.5, 2.0]
    for name in CORE.keys() - {"divide"}:
        x = arguments(name, 300)
        assert len(x) == 300 and np.isfinite(x).all()
    assert set(triton_functions()) < CORE.keys()
    turns = {f"{name} of turns" for name in ("cos", "sin")}
    assert triton_library().keys() == {*triton_functions(), *turns, "sqrt"}
