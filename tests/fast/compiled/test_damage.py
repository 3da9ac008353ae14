"""No bit of an artifact may differ: a file of which one does is made anew, and never loaded."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fast import CompiledSession
from fast.compiled import artifacts, inductor, progress

pytestmark = pytest.mark.slow

HEAD = 8 * len(artifacts.sealed(b""))
"""The bits before the package: of the header and the digest."""

REALISTIC = 1_800_000
"""The bytes of a package; the digits job's are some more, and some fewer."""


def flip(data: bytearray, bit: int) -> None:
    data[bit // 8] ^= 1 << bit % 8


@pytest.mark.parametrize("draws", [200, pytest.param(20_000, marks=pytest.mark.full)])
def test_no_bit_of_a_realistic_package_may_differ(draws: int) -> None:
    draw = random.Random(draws)
    package = draw.randbytes(REALISTIC)
    data = bytearray(artifacts.sealed(package))
    assert artifacts.unsealed(data) == package
    for bit in [*range(HEAD), *draw.sample(range(HEAD, 8 * len(data)), draws)]:
        flip(data, bit)
        assert artifacts.unsealed(data) is None, f"bit {bit}"
        flip(data, bit)
    assert artifacts.unsealed(data) == package


class Loaded(Exception):
    """Raised instead of a package's code being run."""


class Stub:
    """A compiler and a loader that compile nothing and load nothing, and note what they do."""

    def __init__(self, package: bytes) -> None:
        self.package = package
        self.made = 0
        self.loaded: list[bytes] = []

    def built(self, graph: object, given: object) -> bytes:
        self.made += 1
        return self.package

    def load(self, package: bytes) -> Any:
        self.loaded.append(package)
        raise Loaded


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stub:
    made = Stub(random.Random(0).randbytes(4096))
    monkeypatch.setenv(artifacts.VARIABLE, str(tmp_path))
    monkeypatch.setattr(inductor, "built", made.built)
    monkeypatch.setattr(inductor, "loaded", made.load)
    return made


def ask() -> None:
    """Let a session want the artifact of a program, as far as to what is loaded."""
    session = CompiledSession(provider="aten", engine="inductor")
    loss = session.run(lambda ops, w: ops.sum(w), [session.param(np.ones(2))], [])
    with pytest.raises(Loaded):
        session.value(loss)


def test_a_session_loads_no_artifact_that_is_damaged(stub: Stub, capsys: Any) -> None:
    ask()
    [(file, _)] = artifacts.kept(artifacts.folder())
    whole = file.read_bytes()
    ask()
    assert stub.made == 1, "what is whole is found"
    draw = random.Random(1)
    for bit in [*draw.sample(range(HEAD), 25), *draw.sample(range(HEAD, 8 * len(whole)), 25)]:
        damaged = bytearray(whole)
        flip(damaged, bit)
        file.write_bytes(damaged)
        stub.made = 0
        ask()
        assert stub.made == 1 and file.read_bytes() == whole, f"bit {bit}"
    assert set(stub.loaded) == {stub.package} and len(stub.loaded) == 52
    assert capsys.readouterr().err.count("is damaged, and is made anew") == 50


def test_a_compilation_is_told_on_a_terminal_and_no_other_one(
    stub: Stub, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask()
    assert not capsys.readouterr().err, "a log is no terminal"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    ask()
    assert not capsys.readouterr().err, "it is found on disk"
    artifacts.make_room(artifacts.folder(), -1)
    with progress.quiet(True):
        ask()
    assert not capsys.readouterr().err
    artifacts.make_room(artifacts.folder(), -1)
    with progress.quiet(False):
        ask()
    first, second = capsys.readouterr().err.replace("\r\033[K", "").splitlines()
    assert first.startswith("engine: compiling a forward pass, which takes some 10 to 40 s")
    assert second == "engine: compiled in 0.0 s"
