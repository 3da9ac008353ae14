"""The population is honest: everybody is named, explained, callable, and judged by what it is."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import Tensor

from equivalence.cases.call import TORCH
from population.judged.member import MemberBackend
from population.record import SESSION, Member, right, wrong
from population.registry import chosen, everyone, named, reported
from population.rivals.policies import POLICIES, SHAPES, accepts, reference
from population.rivals.samples import Sampler, hyper
from spec.ops import tanh

MEMBERS = everyone()


def test_every_name_is_one_members() -> None:
    twice = [name for name, count in Counter(m.name for m in MEMBERS).items() if count > 1]
    assert not twice
    assert all(named(m.name) is m for m in MEMBERS)


def test_names_are_chosen_by_pattern() -> None:
    assert chosen(None) == list(MEMBERS)
    assert {m.of for m in chosen(["softmax: *"])} == {"softmax"}
    assert chosen(["nobody"]) == []


@pytest.mark.parametrize("member", MEMBERS, ids=lambda m: m.name)
def test_every_member_says_what_it_is(member: Member) -> None:
    assert member.about.endswith("."), "the first line of the docstring is a sentence"
    assert member.source, "a source, or own reading"
    assert not (member.right and member.indistinguishable)


def test_there_are_enough_of_both() -> None:
    assert sum(not m.right for m in MEMBERS) >= 150
    assert sum(m.right for m in MEMBERS) >= 60
    assert 2 * sum(reported(m) for m in MEMBERS if not m.right) > 150, "most of those asked for"


def sample(member: Member) -> list[Tensor]:
    """Call a member once in each of its rows, with the numbers that tests usually have."""
    backend, found = MemberBackend(member), list[Tensor]()
    for dtype in member.dtypes:
        sampler = Sampler(1, TORCH[dtype])
        if member.updates:
            params = [sampler.normal(3, 5), sampler.normal(4)]
            handle = backend.optimizer(member.of, params, {**hyper(member.of), "max_norm": 1.0})
            for _ in range(2):
                handle.step([sampler.normal(3, 5), None])
                handle.step([None, None])
            found += [
                *handle.params(),
                *[t for f in handle.state().values() for t in f if t is not None],
            ]
            continue
        inputs, attrs = sampler.call(member.of)
        given = {"dtype": TORCH[dtype], **attrs} if not inputs else attrs
        due = reference(member.of, inputs, given)
        if "value" in member.directions:
            made = backend.value(member.of, inputs, given)
            found += [made] if isinstance(made, Tensor) else made
        if "vjp" in member.directions:
            cotangents = [sampler.cotangent(result) for result in due]
            gradients = backend.vjp(member.of, inputs, given, cotangents)
            found += [g for g in gradients if g is not None]
    return found


@pytest.mark.parametrize("member", [m for m in MEMBERS if m.of != SESSION], ids=lambda m: m.name)
def test_every_member_runs(member: Member) -> None:
    assert all(isinstance(result, Tensor) for result in sample(member)) or not member.right


@wrong("tanh value", "value")
def nearly(x: Tensor) -> Tensor:
    """A little too large."""
    return torch.tanh(x) * (1 + 3e-5)


@right("tanh value", "value")
def itself(x: Tensor) -> Tensor:
    """Torch's own."""
    return torch.tanh(x)


@wrong("tanh vjp", "gradient")
def doubled(g: Tensor, x: Tensor) -> Tensor:
    """Twice the gradient."""
    return 2 * g * (1 - torch.tanh(x) ** 2)


@wrong("adam", "optimizer")
class Raises:
    """It cannot be made."""

    def __init__(self, *given: object) -> None:
        raise RuntimeError("never")


def test_rivals_say_what_they_see() -> None:
    assert accepts("assert_close", nearly) is False
    assert accepts("KernelBench", nearly) is True, "3e-5 is within its tolerance"
    assert accepts("gradcheck", nearly) is None, "it looks at no value"
    assert accepts("fuzzed", nearly) is False
    assert [accepts(policy, itself) for policy in ("assert_close", "KernelBench", "fuzzed")] == [
        True,
        True,
        True,
    ]
    assert [accepts(policy, doubled) for policy in ("assert_close", "gradcheck")] == [False, False]
    assert accepts("assert_close", Raises) is False, "who raises is accepted by nobody"


def test_rivals_ask_only_what_their_reference_takes() -> None:
    """Torch's Muon takes no vector, and batch_norm no single row; what it keeps has no gradient."""
    rows = [Sampler(seed, torch.float32, None).rows for seed in range(SHAPES)]
    assert 1 in rows
    member = named("batch_norm: of channels in double")
    assert {policy: accepts(policy, member) for policy in POLICIES} == dict.fromkeys(POLICIES, True)
    assert accepts("assert_close", named("muon: blended by lerp")) is True
    assert accepts("assert_close", named("lion: decay in the direction")) is True, (
        "torch has no Lion"
    )


def test_rivals_see_what_is_wrong_with_them() -> None:
    assert accepts("assert_close", named("muon: cubic at the end")) is False
    assert accepts("gradcheck", named("batch_norm: mean of the cotangent dropped")) is False


def test_a_member_refuses_what_the_page_refuses() -> None:
    with pytest.raises(Exception, match="C1"):
        MemberBackend(named("softmax: maximum forgotten")).value(
            "softmax", [torch.ones(2)], {"axis": 3}
        )


def test_a_member_of_16_bits_follows_no_program_that_steps_in_storage() -> None:
    backend = MemberBackend(named("layer_norm: gamma summed in bf16"))
    contract = backend.capabilities().contract("layer_norm", "bf16")
    assert (contract.steps, contract.forms) == ("compute", ())


def test_what_remembers_is_made_anew() -> None:
    @wrong("tanh value", "aliasing")
    class counted:
        """It counts its calls."""

        def __init__(self) -> None:
            self.calls = 0

        def __call__(self, x: Tensor) -> Tensor:
            self.calls += 1
            return torch.full_like(x, self.calls)

    for _ in range(2):
        backend = MemberBackend(counted)
        assert backend.value(tanh.op.name, [torch.ones(())], {}).item() == 1
        assert backend.value(tanh.op.name, [torch.ones(())], {}).item() == 2


def test_unknown_rows_are_refused() -> None:
    for where, kind in (("nothing value", "value"), ("exp jvp", "value"), ("exp", "no kind")):
        with pytest.raises(ValueError, match=r"unknown|has no"):
            wrong(where, kind)(nearly.how)
