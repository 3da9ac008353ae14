"""Two program instances race at a byte that both touch and one writes, whatever it writes."""

from __future__ import annotations

import numpy as np
import pytest

from equivalence.races.accesses import Access, Way, conflict


def access(instance: int, way: Way, first: int, count: int = 1, size: int = 4) -> Access:
    """Access elements in a row, from an address on."""
    addresses = first + size * np.arange(count, dtype=np.int64)
    return Access((instance, 0, 0), way, addresses, size, f"{way} by {instance}")


@pytest.mark.parametrize("other", ["read", "write", "update"])
def test_a_write_conflicts_with_every_access_of_another_instance(other: Way) -> None:
    found = conflict([access(1, other, 8, 2), access(0, "write", 0, 3)])
    assert found is not None
    assert {found.first.instance[0], found.second.instance[0]} == {0, 1}
    assert (found.first.way, found.second.way, found.bytes_raced) == ("write", other, 4)


def test_an_update_conflicts_with_a_read_but_with_no_update() -> None:
    updates = [access(0, "update", 0), access(1, "update", 0)]
    assert conflict(updates) is None
    found = conflict([*updates, access(1, "read", 0)])
    assert found is not None
    assert [found.first.operation, found.second.operation] == ["update by 0", "read by 1"]


def test_what_one_instance_does_alone_is_no_race() -> None:
    assert conflict([]) is None
    assert conflict([access(0, "write", 0), access(0, "read", 0), access(1, "write", 4)]) is None
    assert conflict([access(0, "read", 0), access(1, "read", 0)]) is None


def test_elements_of_other_sizes_meet_in_bytes() -> None:
    found = conflict([access(0, "write", 0, size=8), access(1, "read", 6, size=2)])
    assert found is not None and found.bytes_raced == 2
    assert conflict([access(0, "write", 0, size=8), access(1, "read", 8, size=2)]) is None
