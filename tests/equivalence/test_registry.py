"""Pages of one's own: registered, judged as those of the book are, here and in other processes."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from equivalence import (
    FP32,
    Capabilities,
    Contract,
    Request,
    Unregistered,
    Unusable,
    perform,
    register,
    registered,
    unregister,
)
from equivalence.backends.torch.backend import TorchBackend
from equivalence.cases.covering import SINGLES
from equivalence.cases.families.table import NoFamily, family_of
from equivalence.cases.strata.rules import design
from equivalence.cases.updates.design import update_strata
from equivalence.registry import ENTRIES, OPS, OPTIMIZERS, address, addresses, bring, owner
from equivalence.sessions import drawn as sessions
from spec.composite import composite
from spec.kinds import same_shape
from spec.op import Op, Type
from spec.optim import OPTIMIZERS as BOOK_OF_OPTIMIZERS
from spec.optim import Optimizer
from spec.scalar import lift
from spec.tensor import zip_map
from tests.support import judge


def fourth_power(name: str = "fourth_power") -> Op:
    """Make a page that the book has not: the square of the square."""

    def rule(x: Type) -> Type:
        return same_shape(name, x)

    def program(ops: Any, x: Any) -> Any:
        return ops.square(ops.square(x))

    return composite(name, rule, program, (OPS["square"],))


class Powers:
    """A backend of the fourth power; a wrong one where it is told so."""

    name = "powers"

    def __init__(self, wrong: bool = False) -> None:
        self.wrong = wrong

    def capabilities(self) -> Capabilities:
        return Capabilities(
            {"fourth_power": ("fp32",)}, lambda op, dtype: Contract("powers", FP32, FP32)
        )

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        square = inputs[0] * inputs[0]
        return square * (inputs[0].abs() if self.wrong else square)

    def vjp(
        self,
        op: str,
        inputs: Sequence[Tensor],
        attrs: Mapping[str, Any],
        cotangents: Sequence[Tensor],
    ) -> Sequence[Tensor | None]:
        (x,) = inputs
        return [2 * (x * x) * cotangents[0] * (2 * x)]


@pytest.fixture
def page() -> Iterator[Op]:
    """Know the fourth power while a test runs."""
    record = fourth_power()
    with registered(record):
        yield record


def statuses(backend: Powers) -> dict[str, str]:
    """Judge a backend here, and return what each row in fp32 came to."""
    done = perform(Request("powers", ops=["fourth_power"], profile="quick"), backend)
    return {str(r.row): r.status for r in done.results if r.row.dtype == "fp32"}


def test_a_page_of_ones_own_judges_who_is_right_and_who_is_wrong(page: Op) -> None:
    both = ("fourth_power value fp32", "fourth_power vjp fp32")
    assert statuses(Powers()) == dict.fromkeys(both, "conformant")
    assert statuses(Powers(wrong=True)) == {
        both[0]: "nonconformant",
        both[1]: "conformant",
    }


def test_a_block_leaves_no_entry_behind() -> None:
    record = fourth_power()
    with registered(record):
        with registered(record):
            assert OPS["fourth_power"] is record
        assert OPS["fourth_power"] is record
        assert owner("fourth_power") == "this process"
    assert "fourth_power" not in OPS and not ENTRIES


def test_a_name_is_one_records_own(page: Op) -> None:
    assert register(page) is page
    with pytest.raises(Unregistered, match="another operation is called 'fourth_power'"):
        register(fourth_power())
    with pytest.raises(Unregistered, match="another operation is called 'softmax', a page of the"):
        register(fourth_power("softmax"))
    with pytest.raises(Unregistered, match="another optimizer is called 'adam'"):
        register(fourth_power("adam"))
    assert OPS["fourth_power"] is page


def test_what_is_no_record_is_refused() -> None:
    with pytest.raises(Unregistered, match="an Op or an Optimizer; got str 'swiglu'"):
        register("swiglu")  # type: ignore[type-var]
    with pytest.raises(Unregistered, match="is a Python identifier; got 'fourth power'"):
        register(fourth_power("fourth power"))
    with pytest.raises(Unregistered, match="'softmax' is no registered page; none is registered"):
        unregister("softmax")
    assert not ENTRIES


def test_the_book_comes_first_and_stays_as_it_is(page: Op) -> None:
    assert list(OPS)[-1] == "fourth_power" and next(iter(OPS)) == "add"
    assert len(OPS) == len(OPS.of_the_book()) + 1
    assert OPS.by_owner()["this process"] == ["fourth_power"]
    assert list(OPTIMIZERS) == list(BOOK_OF_OPTIMIZERS)


def test_the_family_named_at_registration_is_the_pages_own() -> None:
    record = fourth_power()
    assert family_of(record).name == "elementwise"
    with registered(record, family="rows"):
        assert family_of(record).name == "rows"
    assert family_of(record).name == "elementwise"
    says = "fourth_power is registered with the family 'row', which there is not; there are flips,"
    with registered(record, family="row"), pytest.raises(NoFamily, match=says):
        family_of(record)


@dataclass(frozen=True)
class Pace:
    """One rate by another name."""

    pace: float = 0.5


@dataclass(frozen=True)
class Nothing:
    """No state."""


def by_pace(p: Any, g: Any, state: Nothing, hyper: Pace) -> tuple[Any, Nothing]:
    rate = Fraction(hyper.pace)
    return zip_map(lambda a, b: a - lift(a, rate) * b, p, g), state


def paced(*tried: float, **more: Any) -> Optimizer:
    """Make an optimizer that the book has not, which tries some rates."""
    choices = {"pace": tried}
    start = Nothing()
    return Optimizer(
        "paced", Pace, Nothing, lambda p: start, by_pace, choices, ("pace",), (), **more
    )


def paces() -> set[float]:
    """Return the rates at which the cases of the optimizer step."""
    cases = update_strata("paced", "fp32", SINGLES)
    return {case.hyper_parameters(k)["pace"] for case in cases for k in range(len(case.shapes))}


def test_nothing_is_remembered_of_a_page_that_was_taken_away() -> None:
    with registered(paced(0.5, 0.25)):
        assert paces() == {0.5, 0.25}
    with registered(paced(0.5, 0.125)):
        assert paces() == {0.5, 0.125}
    record = fourth_power()
    with registered(record, family="elementwise"):
        elementwise = design(record, "value")
    with registered(record, family="rows"):
        assert design(record, "value") is not elementwise


def test_an_optimizer_is_a_row_of_who_has_it() -> None:
    with registered(paced(0.5, 0.25)):
        assert "paced" not in TorchBackend().capabilities().optimizers
        assert owner("paced") == "this process" and "paced" in OPTIMIZERS
    with registered(paced(0.5, torch="NoSuchClass")):
        assert "paced" not in TorchBackend().capabilities().optimizers
    with registered(paced(0.5, torch="SGD")):
        assert "paced" in TorchBackend().capabilities().optimizers
    assert "paced" not in TorchBackend().capabilities().optimizers


def test_sessions_take_the_pages_that_both_sides_have(page: Op) -> None:
    with registered(paced(0.5, 0.25)):
        assert not {"paced", "fourth_power"} & {*sessions.OPTIMIZERS, *sessions.OPS}


def test_what_needs_another_process_says_what_to_write(page: Op, tmp_path: Path) -> None:
    says = "registered in this process alone.*Save its record in a module, say mypages.py"
    assert address("fourth_power") is None
    with pytest.raises(Unregistered, match=says):
        addresses(["softmax", "fourth_power"])
    asked = Request("powers", ops=["fourth_power"], profile="quick", record=tmp_path / "cases")
    with pytest.raises(Unusable, match=says):
        perform(asked, Powers())
    assert not (tmp_path / "cases").exists()


def test_an_address_that_leads_nowhere_is_refused() -> None:
    with pytest.raises(Unregistered, match="there is no module 'no_such_pages' to import"):
        bring("no_such_pages")
    with pytest.raises(Unregistered, match="importing json registers no page 'fourth_power'"):
        bring("json:fourth_power")


PAGES = """
from equivalence import register
from spec.composite import composite
from spec.ops import OPS


def rule(x):
    return x


def program(ops, x):
    return ops.square(ops.square(x))


register(composite("fourth_power", rule, program, (OPS["square"],)))
"""

KERNELS = """
from equivalence import FP32, Capabilities, Contract


class Right:
    name = "powers"

    def capabilities(self):
        return Capabilities({"fourth_power": ["fp32"]}, lambda *_: Contract("own", FP32, FP32))

    def value(self, op, inputs, attrs):
        return inputs[0].square().square()

    def vjp(self, op, inputs, attrs, cotangents):
        (x,) = inputs
        return [2 * x.square() * cotangents[0] * (2 * x)]


class Wrong(Right):
    name = "wrong"

    def value(self, op, inputs, attrs):
        return inputs[0] ** 3
"""


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """Return a stranger's folder: a module with a page, and one with backends of it."""
    (tmp_path / "mypages.py").write_text(PAGES)
    (tmp_path / "mykernels.py").write_text(KERNELS)
    return tmp_path


@pytest.mark.slow
def test_workers_and_replays_find_a_page_by_its_module(house: Path) -> None:
    asked = ("--pages", "mypages", "--ops", "fourth_power", "--profile", "quick", "--jobs", "2")
    right = judge(house, "run", "--backend", "mykernels:Right", *asked, "--json", "right.json")
    assert right.returncode == 0, right.stdout + right.stderr
    plain = json.loads((house / "right.json").read_text())
    assert plain["environment"]["pages"] == {"fourth_power": "mypages:fourth_power"}
    wrong = judge(house, "run", "--backend", "mykernels:Wrong", *asked)
    assert wrong.returncode == 1, wrong.stdout + wrong.stderr
    (line, *_) = [line for line in wrong.stdout.splitlines() if "replay: " in line]
    words = shlex.split(line.partition("replay: ")[2])
    assert words[:3] == ["python", "-m", "equivalence"]
    assert json.loads(words[4])["page"] == "mypages:fourth_power"
    again = judge(house, *words[3:])
    assert again.returncode == 1, again.stdout + again.stderr
    assert "worst fraction of budget" in again.stdout


@pytest.mark.full
def test_the_other_commands_take_a_registered_page(house: Path) -> None:
    listed = judge(house, "list", "--pages", "mypages")
    assert "operations of mypages: fourth_power" in listed.stdout
    own = ("--backend", "mykernels:Right", "--pages", "mypages", "--ops", "fourth_power")
    exact = judge(house, "exact", *own, "--jobs", "2")
    assert exact.returncode == 0, exact.stdout + exact.stderr
    kept = judge(house, "run", *own, "--profile", "quick", "--record", "cases", "--jobs", "1")
    assert kept.returncode == 0, kept.stdout + kept.stderr
    replayed = judge(house, "run", *own, "--replay", "cases", "--jobs", "1")
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    missing = judge(house, "run", "--backend", "mykernels:Right", "--pages", "mypage")
    assert missing.returncode == 2
    assert "there is no module 'mypage' to import" in missing.stderr
