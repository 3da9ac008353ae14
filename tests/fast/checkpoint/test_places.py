"""Where a checkpoint is written: earlier ones kept, leftovers removed, wrong places told apart."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from fast import Rejected, Session, checkpoint
from fast.checkpoint import sealed
from fast.disk import atomic
from fast.errors import Unwritable


def session(value: float = 1.0) -> Session:
    made = Session(provider="aten")
    made.param([value], name="w")
    return made


def held(path: Path) -> float:
    other = session()
    checkpoint.load(path, other)
    return other.params[0].value().item()


@pytest.mark.parametrize("links", [True, False])
def test_the_last_ones_are_kept_on_request(
    links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not links:
        monkeypatch.setattr(os, "link", _refused)
    path = tmp_path / "c"
    for k in range(5):
        checkpoint.save(path, session(float(k)), keep=3)
    assert [held(tmp_path / name) for name in ("c", "c.1", "c.2")] == [4.0, 3.0, 2.0]
    checkpoint.save(path, session(5.0))
    assert [held(tmp_path / name) for name in ("c", "c.1", "c.2")] == [5.0, 3.0, 2.0]
    assert sorted(os.listdir(tmp_path)) == ["c", "c.1", "c.2"]


def _refused(*_: Any) -> None:
    raise OSError(95, "no hard links here")


def test_a_name_is_never_without_a_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c"
    checkpoint.save(path, session(0.0), keep=3)
    replace, seen = os.replace, []

    def watched(one: Any, other: Any) -> None:
        seen.append(held(path))
        replace(one, other)

    monkeypatch.setattr(os, "replace", watched)
    for k in (1.0, 2.0, 3.0):
        checkpoint.save(path, session(k), keep=3)
    assert seen == [0.0, 0.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0]


@pytest.mark.parametrize("keep", [0, -1, 1.0, True, None])
def test_what_is_no_number_of_files_is_refused(keep: Any, tmp_path: Path) -> None:
    with pytest.raises(Rejected, match=r"^checkpoint .*c: keep is a number of files, at least 1"):
        checkpoint.save(tmp_path / "c", session(), keep=keep)
    assert not list(tmp_path.iterdir())


def test_what_a_killed_process_has_left_is_removed(tmp_path: Path) -> None:
    ending = "0123456789abcdef.part"
    left, busy = tmp_path / f".c.{ending}", tmp_path / f".c.f{ending[1:]}"
    others = [tmp_path / f".d.{ending}", tmp_path / ".c.part", tmp_path / f"c.{ending}"]
    for path in (left, busy, *others):
        path.write_bytes(b"half")
    with busy.open("rb") as writing:
        fcntl.flock(writing.fileno(), fcntl.LOCK_EX)
        checkpoint.save(tmp_path / "c", session())
        assert not left.exists() and busy.exists()
        assert all(path.exists() for path in others)
    checkpoint.save(tmp_path / "c", session())
    assert not busy.exists()


def test_a_temporary_file_that_somebody_has_removed_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, stolen = atomic.lock, []

    def late(descriptor: int, wait: bool = True) -> bool:
        if not stolen:
            stolen.extend(tmp_path.glob(".c.*.part"))
            stolen[0].unlink()
        return lock(descriptor, wait)

    monkeypatch.setattr(atomic, "lock", late)
    checkpoint.save(tmp_path / "c", session(2.0))
    assert len(stolen) == 1 and held(tmp_path / "c") == 2.0


def test_a_loop_of_links_is_refused_and_stays(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.symlink_to(other)
    other.symlink_to(one)
    with pytest.raises(Rejected, match=r"one is a link that leads back to itself; name a file$"):
        checkpoint.save(one, session())
    assert one.is_symlink() and other.is_symlink()


def test_a_place_that_may_not_be_written_is_told_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: Any) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(atomic, "_start", forbidden)
    with pytest.raises(Unwritable) as caught:
        checkpoint.save(tmp_path / "c", session())
    assert str(caught.value) == (
        f"checkpoint {tmp_path}/c: cannot be written: Permission denied; name a file in a folder "
        f"where this process may make files, which {tmp_path} is not"
    )
    assert isinstance(caught.value, OSError) and isinstance(caught.value, Rejected)


@pytest.mark.parametrize("length", [0, 16, 2**40])
def test_a_sparse_giant_is_refused_before_it_is_read(length: int, tmp_path: Path) -> None:
    path = tmp_path / "giant"
    with path.open("wb") as file:
        file.write(length.to_bytes(8, "little"))
        file.truncate(20 * 2**30)
    with pytest.raises(Rejected, match=r"giant: is damaged: it has 21474836480 bytes, and its"):
        checkpoint.load(path, session())


def test_a_large_checkpoint_is_as_long_as_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealed, "LARGE", 64)
    path = tmp_path / "c"
    checkpoint.save(path, session(3.0))
    assert held(path) == 3.0
    with path.open("ab") as file:
        file.write(b"\0")
    with pytest.raises(Rejected, match=r"is damaged: it has \d+ bytes, and its header tells of"):
        held(path)


def test_a_key_that_stands_twice_in_the_header_is_refused(tmp_path: Path) -> None:
    """Also in a file that carries the digest of its own bytes, which anybody can make."""
    tensors = {"param/w": torch.ones(1), "param/v": torch.zeros(1)}
    data = bytes(sealed.pack(tensors, json.dumps({})))
    twice = bytearray(data.replace(b'"param/v"', b'"param/w"'))
    twice[sealed._PLACE] = sealed._digest(twice)
    (tmp_path / "c").write_bytes(twice)
    with pytest.raises(Rejected, match=r"c: (header: 'param/w' stands there twice|is no whole)"):
        checkpoint.load(tmp_path / "c", session())
