"""Naturals of a session's tape: what is one, which ref reads it, and what is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from fast import CompiledSession, Rejected, Session


def session() -> Session:
    return Session(provider="aten", device="cpu")


def of_a_scalar(s: Session) -> list[Callable[[Any], Any]]:
    return [s.get_nat, lambda ref: s.set_nat(ref, 7)]


def of_a_vector(s: Session) -> list[Callable[[Any], Any]]:
    return [
        s.get_nat_vec,
        lambda ref: s.get_nat_vec(ref, 1),
        lambda ref: s.set_nat_vec(ref, [7]),
        s.indices,
    ]


def test_a_ref_of_the_other_kind_is_refused_and_nothing_is_overwritten() -> None:
    s = session()
    one, many = s.nat(3), s.nat_vec([4, 5])
    for uses, strange, due in (
        (of_a_scalar(s), many, r"a ref from nat\(\) is needed, got a NatVecRef"),
        (of_a_vector(s), one, r"a ref from nat_vec\(\) is needed, got a NatRef"),
    ):
        for use in uses:
            with pytest.raises(Rejected, match=due):
                use(strange)
            for bad in (None, 0, [4, 5], s.input([1.0])):
                with pytest.raises(Rejected, match=r"is needed, got"):
                    use(bad)
    assert (s.get_nat(one), s.get_nat_vec(many)) == (3, [4, 5])


@pytest.mark.parametrize("count", ["a", 1.5, True, -1, 3, [1]])
def test_a_count_is_an_integer_that_the_vector_has(count: Any) -> None:
    s = session()
    many = s.nat_vec([4, 5])
    for read in (s.get_nat_vec, s.indices):
        with pytest.raises(Rejected, match="nat_vec: a count is an int from 0 to 2"):
            read(many, count)
    assert s.get_nat_vec(many, 2) == [4, 5]
    assert s.get_nat_vec(many, np.int64(1)) == [4]  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [2**63, 2**70])
def test_what_no_int64_holds_is_refused(number: int) -> None:
    s = session()
    one, many, x = s.nat(3), s.nat_vec([4]), s.input([1.0, 2.0])
    for use in (
        lambda: s.nat(number),
        lambda: s.set_nat(one, number),
        lambda: s.nat_vec([0, number]),
        lambda: s.set_nat_vec(many, [number]),
        lambda: s.take(x, [number], axis=0),
        lambda: s.take(x, [-number - 1], axis=0),
    ):
        with pytest.raises(Rejected, match=r"int64.*got -?\d+"):
            use()
    assert (s.get_nat(one), s.get_nat_vec(many)) == (3, [4])
    assert s.get_nat(s.nat(2**63 - 1)) == 2**63 - 1


@pytest.mark.parametrize("kind", ["uint8", "uint16", "uint32", "uint64", ">u2", ">i4"])
def test_labels_of_every_integer_type_come_in_if_their_values_fit(kind: str) -> None:
    s = session()
    x, labels = s.input([10.0, 20.0, 30.0]), np.array([2, 0], dtype=kind)
    assert s.get_nat_vec(s.nat_vec(labels)) == [2, 0]
    assert s.value(s.take(x, labels, axis=0)).tolist() == [30.0, 10.0]
    assert s.value(s.take(x, labels[1], axis=0)).item() == 10.0
    if kind.startswith("uint"):
        tensor = torch.tensor([2, 0], dtype=getattr(torch, kind))
        assert s.get_nat_vec(s.nat_vec(tensor)) == [2, 0]
        assert s.get_nat(s.nat(labels[0])) == 2


@pytest.mark.parametrize("kind", ["uint8", "uint16", "uint32", "uint64"])
@pytest.mark.parametrize("session_type", [Session, CompiledSession])
def test_unsigned_labels_reach_a_program_as_they_are(
    session_type: type[Session], kind: str
) -> None:
    s = session_type(provider="aten", device="cpu")
    w = s.param([[1.0, 2.0], [3.0, 4.0]])

    def program(ops: Any, rows: Any, labels: Any) -> Any:
        return ops.sum(ops.take(rows, labels, axis=0))

    numbers = np.array([1, 1], dtype=kind)
    for labels in (numbers, torch.from_numpy(numbers)):
        assert s.value(s.run(program, [w], [labels])).item() == 14.0


def test_labels_beyond_int64_are_refused() -> None:
    s = session()
    x = s.input([10.0, 20.0, 30.0])
    labels = np.array([0, 2**63], dtype=np.uint64)
    for given in (labels, labels[1], torch.from_numpy(labels)):
        with pytest.raises(Rejected, match=r"int64.*got 9223372036854775808"):
            s.take(x, given, axis=0)
    with pytest.raises(Rejected, match=r"int64"):
        s.nat_vec(labels)
