"""Locks between processes, whose files may be removed by who holds them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fast.disk import locks


def test_a_lock_is_held_by_one(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with locks.alone(path) as held:
        assert held
        with locks.alone(path, wait=False) as too:
            assert not too
    with locks.alone(path, wait=False) as held:
        assert held


@pytest.mark.parametrize("anew", [True, False])
def test_who_waited_for_a_file_that_was_removed_waits_for_its_successor(
    anew: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, lock, seen = tmp_path / "lock", locks.lock, []

    def late(descriptor: int, wait: bool = True) -> bool:
        if not seen:
            path.unlink()
            if anew:
                path.touch()
        seen.append(path.exists())
        return lock(descriptor, wait)

    monkeypatch.setattr(locks, "lock", late)
    with locks.alone(path) as held:
        assert held and seen == [anew, True]
        monkeypatch.setattr(locks, "lock", lock)
        with locks.alone(path, wait=False) as too:
            assert not too, "the lock is on the file that stands there now"


def test_where_there_are_no_locks_nobody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", refused)
    with locks.alone(tmp_path / "lock") as held:
        assert not held
