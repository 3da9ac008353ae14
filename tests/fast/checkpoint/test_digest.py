"""The digest of a checkpoint: no damage of any kind is loaded, and a file without one says so."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from fast import Rejected, Session, Unverified, checkpoint
from fast.checkpoint import files, sealed
from fast.checkpoint.snapshot import read
from tests.fast.checkpoint.test_checkpoint import (
    hold_the_same,
    hyper,
    refused,
    repack,
    session,
    step,
    unpacked,
    unsealed,
    used,
)

OF_A_REFUSAL = 300 + files.LONGEST
"""The longest message, with the file's name."""


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A small checkpoint with state, hyper-parameters and entries of a program."""
    s = Session(provider="aten", device="cpu")
    s.param(torch.tensor([1.0, -2.0]), name="w")
    step(s, "adamw")
    checkpoint.save(tmp_path / "c", s, {"epoch": 3, "rate": 0.01})
    return tmp_path / "c"


def small() -> Session:
    s = Session(provider="aten", device="cpu")
    s.param(torch.zeros(2), name="w")
    return s


def flips(whole: bytes) -> Iterator[bytes]:
    """Yield the file with each of its bits flipped."""
    for place in range(len(whole)):
        for bit in range(8):
            other = bytearray(whole)
            other[place] ^= 1 << bit
            yield bytes(other)


def truncations(whole: bytes) -> Iterator[bytes]:
    """Yield every proper beginning and every proper end."""
    for length in range(len(whole)):
        yield whole[:length]
        yield whole[length + 1 :]


def insertions(whole: bytes) -> Iterator[bytes]:
    """Yield the file with a byte put in, doubled or left out at each place."""
    for place in range(len(whole) + 1):
        for byte in (b"\0", b"0", whole[place : place + 1]):
            if byte:
                yield whole[:place] + byte + whole[place:]
        if place < len(whole):
            yield whole[:place] + whole[place + 1 :]


@pytest.mark.parametrize("damages", [flips, truncations, insertions])
def test_no_damage_is_loaded(saved: Path, damages: object) -> None:
    whole, s, count = saved.read_bytes(), small(), 0
    assert checkpoint.load(saved, s) == {"epoch": 3, "rate": 0.01}
    before = read(s)
    for damaged in damages(whole):  # type: ignore[operator]
        saved.write_bytes(damaged)
        with pytest.raises(Rejected, match=r"^checkpoint ") as caught:
            checkpoint.load(saved, s)
        assert len(str(caught.value)) <= OF_A_REFUSAL
        count += 1
    assert hold_the_same(before, read(s)) and count > len(whole)


def test_nobody_can_turn_a_new_file_into_an_old_one_by_its_version_alone(saved: Path) -> None:
    whole = saved.read_bytes()
    assert whole.count(b'"version":"2"') == 1
    saved.write_bytes(whole.replace(b'"version":"2"', b'"version":"1"'))
    message = refused(saved, small())
    assert message == "is damaged: a file of version 1 has no digest, and this one has"
    flipped = sum((a ^ b).bit_count() for a, b in zip(b"1", b"2", strict=True))
    assert flipped > 1


def test_any_reader_of_the_format_opens_the_file(saved: Path) -> None:
    with safe_open(saved, framework="pt") as file:
        assert file.metadata()["schema"] == "twingrad-checkpoint"
        assert file.get_tensor("param/w").shape == (2,)
        assert json.loads(file.metadata()["contents"])["extra"]["epoch"] == 3


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (3,), (2, 3)])
@pytest.mark.parametrize("dtype", list(sealed.DTYPES))
def test_tensors_come_back(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    tensors = {"é": torch.ones(shape, dtype=dtype), "x": torch.arange(3.0), "n": torch.tensor(5)}
    text, found, verified = sealed.unpack(bytes(sealed.pack(tensors, 'a "text"')))
    assert text == 'a "text"' and verified and found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].dtype is tensor.dtype and found[name].shape == tensor.shape
        assert found[name].equal(tensor)


def test_a_file_from_before_there_was_a_digest_loads_and_says_that_it_has_none(
    tmp_path: Path,
) -> None:
    first, second, file = session(), session(scale=5.0), tmp_path / "c"
    step(first)
    checkpoint.save(file, first, {"rate": 0.1})
    unsealed(file, *unpacked(file))
    with pytest.warns(Unverified, match=r"checkpoint .*/c: version 1 has no digest"):
        assert checkpoint.load(file, second) == {"rate": 0.1}
    assert hold_the_same(read(first), read(second))
    checkpoint.save(file, second, {"rate": 0.1})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checkpoint.load(file, session())


def test_a_file_without_metadata_is_refused(saved: Path) -> None:
    save_file({"x": torch.ones(1)}, saved)
    assert refused(saved, small()).startswith("schema: ")


@pytest.mark.parametrize(
    "text", ["081.8p+0", "0x1.8p0", "0x1.8p+0", "1.5", " 0x1.8000000000000p+0", "-nan", "Inf", ""]
)
def test_a_float_is_read_as_it_is_written_and_in_no_other_way(saved: Path, text: str) -> None:
    tensors, description = unpacked(saved)
    hyper(description).update(lr={"float": text})
    repack(saved, tensors, description)
    assert refused(saved, small()).startswith("optimizers/adamw/groups/0/lr: a hexadecimal float")


def test_a_refusal_is_short_whatever_the_file_says(saved: Path) -> None:
    tensors, description = unpacked(saved)
    description["extra"]["epoch"] = ["x" * 100_000]
    repack(saved, tensors, description)
    message = refused(saved, used())
    assert message.startswith("extra/epoch: ") and len(message) < files.LONGEST + 30
    assert "characters]" in message


def test_what_is_no_regular_file_is_not_waited_for() -> None:
    assert refused(Path("/dev/zero"), small()).startswith("cannot be read: it is no regular file")
