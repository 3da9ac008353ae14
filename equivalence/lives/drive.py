"""The lifecycle machine: Hypothesis drives whole lives of a session, and every promise is checked.

Bugs of such systems are seldom in a formula. They are in what is stale, aliased, released too early
or too late, read once too often, or updated twice. So rules that a user could call in any order are
called in any order, on `fast` and on the reference at once (`equivalence.lives.life` and its
neighbours); `equivalence.lives.model` says what must hold after each, and what must be refused.

    python -m equivalence machine --profile quick --seed 1

A life that breaks a promise is printed as a program that replays.
"""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hypothesis import Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from equivalence.budgets.violation import Violation
from equivalence.cases.families.family import Picks
from equivalence.cases.strategies import quiet
from equivalence.lives.moves import (
    EVENTS,
    FAULTS,
    GRADIENTS,
    LEAVES,
    PARAMETERS,
    PHASES,
    TURNS,
    UPDATES,
    Calls,
    Event,
    Moves,
)
from equivalence.measure.spent import Spent
from equivalence.registry import OPS
from equivalence.runs.results import Failure, Row, RowResult, status_of
from equivalence.runs.runner import PROFILES
from equivalence.twins.examined import CONFIGURATIONS

STEPS = {"quick": 30, "ci": 30, "thorough": 50}
"""How long a life is in each profile; how many there are is the profile's number of cases."""

BATCH = 30
"""A row drives so many lives, so that being cut short costs no more than a few minutes."""

NUMBERS = st.tuples(*[st.integers(0, 99)] * 3)
NAMES = st.sampled_from([*OPS, "take", "take"])
CALLS = st.lists(st.tuples(NAMES, NUMBERS), min_size=1, max_size=5)
DISTURBANCES = st.lists(
    st.tuples(st.sampled_from(EVENTS), st.sampled_from(PHASES), NUMBERS), min_size=1, max_size=4
)


class Lifecycle(RuleBasedStateMachine):
    """What may happen in a life, in any order; `equivalence.lives.moves` says how."""

    provider, precision = "aten", "fp32"
    seen: Counter[str]

    def __init__(self) -> None:
        """Start a life."""
        super().__init__()
        self.moves = Moves(self.provider, self.precision)

    def teardown(self) -> None:
        """End it: everything that was taken has been given back."""
        life = self.moves.life
        self.seen.update(lives=1, statements=len(life.program), judged=life.twin.judged)
        self.moves.end()

    @initialize(n=NUMBERS)
    def begin(self, n: Picks) -> None:
        """Have a parameter or two, in use."""
        self.moves.begin(n)

    @rule(move=st.sampled_from(LEAVES), n=NUMBERS)
    def leaves(self, move: str, n: Picks) -> None:
        """Make a parameter, put one or data on the tape, record a natural or overwrite it."""
        getattr(self.moves, move)(n)

    @rule(calls=CALLS)
    def ops(self, calls: Calls) -> None:
        """Run some ops."""
        self.moves.ops(calls)

    @rule(move=st.sampled_from(GRADIENTS), n=NUMBERS)
    def gradients(self, move: str, n: Picks) -> None:
        """Send a cotangent back, by sparse, added-up or dense gradients; ask for one; release."""
        getattr(self.moves, move)(n)

    @rule(move=st.sampled_from(UPDATES), n=NUMBERS)
    def updates(self, move: str, n: Picks) -> None:
        """Update parameters by any optimizer from any form of gradients."""
        getattr(self.moves, move)(n)

    @rule(move=st.sampled_from(PARAMETERS), n=NUMBERS)
    def parameters(self, move: str, n: Picks) -> None:
        """Write a parameter on the host or the device, look at it, freeze it or thaw it."""
        getattr(self.moves, move)(n)

    @rule(move=st.sampled_from(TURNS), n=NUMBERS)
    def turns(self, move: str, n: Picks) -> None:
        """Reset the tape, give memory back, write a checkpoint or go back to it."""
        getattr(self.moves, move)(n)

    @rule(move=st.sampled_from(FAULTS), n=NUMBERS)
    def faults(self, move: str, n: Picks) -> None:
        """Let something fail: nothing must have happened."""
        getattr(self.moves, move)(n)

    @rule(calls=CALLS, n=NUMBERS, events=DISTURBANCES)
    def train(self, calls: Calls, n: Picks, events: list[Event]) -> None:
        """Make the same training step twice, and disturb the first."""
        self.moves.train(calls, n, events)

    @rule(calls=CALLS, n=NUMBERS, events=DISTURBANCES)
    def train_more(self, calls: Calls, n: Picks, events: list[Event]) -> None:
        """Do so twice as often as anything else."""
        self.moves.train(calls, n, events)


@dataclass(frozen=True)
class Run:
    """What came of many lives; `says` which promise was broken, if any, and by which program."""

    provider: str
    precision: str
    lives: int
    statements: int
    judged: int
    seconds: float
    says: str = ""
    program: str = ""


def run_lives(
    provider: str, precision: str, lives: int, steps: int, number: int, shrink: bool = False
) -> Run:
    """Drive so many lives of so many steps; the same number always drives the same ones.

    Shrinking finds a shorter program that breaks the promise, and takes minutes.
    """
    seen: Counter[str] = Counter()
    chosen = {"provider": provider, "precision": precision, "seen": seen}
    machine = seed(number)(type("Driven", (Lifecycle,), chosen))
    phases = (Phase.generate, Phase.shrink) if shrink else (Phase.generate,)
    rules = settings(quiet(lives, *phases), stateful_step_count=steps, report_multiple_bugs=False)
    start = time.perf_counter()
    broken = Violation("")
    with settled():
        try:
            run_state_machine_as_test(machine, settings=rules)
        except Violation as violation:
            broken = violation
    return Run(
        provider, precision, seen["lives"], seen["statements"], seen["judged"],
        time.perf_counter() - start, broken.says, program(broken),
    )  # fmt: skip


@contextmanager
def settled() -> Iterator[None]:
    """Let only what dies in a life be counted as freed in it, and let collecting that be quick."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def program(violation: Violation) -> str:
    """Write a broken life as a program that breaks it again."""
    lines = ["from equivalence.lives.life import Life", "", *violation.program]
    return "\n".join([*lines, f"# {violation.says}", ""]) if violation.says else ""


def lives_rows(profile: str) -> list[Row]:
    """Return the rows of a profile: batches of lives at every configuration."""
    batches = -(-PROFILES[profile] // BATCH)
    return [
        Row("lives" if batches == 1 else f"lives-{batch + 1}", *configuration)
        for batch in range(batches)
        for configuration in CONFIGURATIONS
    ]


def judge_lives(profile: str, number: int, shrink: bool, row: Row) -> RowResult:
    """Drive the lives of a row; the same number always drives the same ones."""
    rows = lives_rows(profile)
    lives = min(BATCH, PROFILES[profile])
    place = row.direction, row.dtype
    run = run_lives(*place, lives, STEPS[profile], number + rows.index(row), shrink)
    replays = ("This program replays it:", "", *run.program.splitlines())
    failures = (Failure(run.says, replays),) if run.says else ()
    status = status_of(
        failed=bool(failures),
        crashed=False,
        counted=run.lives,
        wanted=lives,
        judged=run.judged,
        unconstrained=0,
    )
    return RowResult(
        row=row,
        status=status,
        cases=run.lives,
        judged=run.judged,
        failures=failures,
        spent=Spent(run.seconds),
    )
