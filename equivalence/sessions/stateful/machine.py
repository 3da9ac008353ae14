"""The state machine of a session: Hypothesis drives stateful test runs, and checks every promise.

Bugs of such systems are seldom in a formula. They are in what is stale, aliased, released too early
or too late, read once too often, or updated twice. So rules that a user could call in any order are
called in any order, on `fast` and on the reference at once (`equivalence.sessions.stateful.run`
and its neighbours); `equivalence.sessions.stateful.model` says what must hold after each, and what
must be refused.

    python -m equivalence machine --profile quick --seed 1

A run that breaks a promise is printed as a program that replays.
"""

from __future__ import annotations

from hypothesis import seed
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from equivalence.cases.families.family import Picks
from equivalence.draws import independent, reproducible
from equivalence.runs.results import Row, RowResult
from equivalence.runs.runner import PROFILES
from equivalence.sessions.drawn import drawing
from equivalence.sessions.seen import CONFIGURATIONS, Seen
from equivalence.sessions.stateful.rules import (
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
    Rules,
)
from equivalence.sessions.stateful.run import settled
from spec.ops import OPS

STEPS = {"quick": 30, "ci": 30, "thorough": 50}
"""How long a run is in each profile; how many there are is the profile's number of cases."""

NAME = "lives"
"""What reports call the runs of a row; the seeds, recorded results and --only know it."""

BATCH = 30
"""A row drives so many runs, so that being cut short costs no more than a few minutes."""

NUMBERS = st.tuples(*[st.integers(0, 99)] * 3)
ANY = st.sampled_from([*OPS])
READERS = st.sampled_from([name for name, op in OPS.items() if op.index_ranges])
"""The ops that read positions, which a natural may hold.

One call in three is theirs, however many other ops there are: else naturals would be read the more
seldom, the longer the table of ops.
"""

CALLS = st.lists(st.tuples(ANY | ANY | READERS, NUMBERS), min_size=1, max_size=5)
DISTURBANCES = st.lists(
    st.tuples(st.sampled_from(EVENTS), st.sampled_from(PHASES), NUMBERS), min_size=1, max_size=4
)


class SessionMachine(RuleBasedStateMachine):
    """What may happen in a run, in any order; `equivalence.sessions.stateful.rules` says how.

    Hypothesis reads the names of the methods and of their arguments: by others, a seed would
    drive other runs.
    """

    provider, precision = "aten", "fp32"
    seen: Seen

    def __init__(self) -> None:
        """Start a run."""
        super().__init__()
        self.state = Rules(self.provider, self.precision)

    def teardown(self) -> None:
        """End it: everything that was taken has been given back."""
        run = self.state.run
        self.seen.add(run.ledger, len(run.program))
        run.close()

    @initialize(n=NUMBERS)
    def begin(self, n: Picks) -> None:
        """Have a parameter or two, in use."""
        self.state.begin(n)

    @rule(move=st.sampled_from(LEAVES), n=NUMBERS)
    def leaves(self, move: str, n: Picks) -> None:
        """Make a parameter, put one or data on the tape, record a natural or overwrite it."""
        getattr(self.state, move)(n)

    @rule(calls=CALLS)
    def ops(self, calls: Calls) -> None:
        """Run some ops."""
        self.state.ops(calls)

    @rule(move=st.sampled_from(GRADIENTS), n=NUMBERS)
    def gradients(self, move: str, n: Picks) -> None:
        """Send a cotangent back, by sparse, added-up or dense gradients; ask for one; release."""
        getattr(self.state, move)(n)

    @rule(move=st.sampled_from(UPDATES), n=NUMBERS)
    def updates(self, move: str, n: Picks) -> None:
        """Update parameters by any optimizer from any form of gradients."""
        getattr(self.state, move)(n)

    @rule(move=st.sampled_from(PARAMETERS), n=NUMBERS)
    def parameters(self, move: str, n: Picks) -> None:
        """Write a parameter on the host or the device, look at it, freeze it or thaw it."""
        getattr(self.state, move)(n)

    @rule(move=st.sampled_from(TURNS), n=NUMBERS)
    def turns(self, move: str, n: Picks) -> None:
        """Reset the tape, give memory back, write a checkpoint or go back to it."""
        getattr(self.state, move)(n)

    @rule(move=st.sampled_from(FAULTS), n=NUMBERS)
    def faults(self, move: str, n: Picks) -> None:
        """Let something fail: nothing must have happened."""
        getattr(self.state, move)(n)

    @rule(calls=CALLS, n=NUMBERS, events=DISTURBANCES)
    def train(self, calls: Calls, n: Picks, events: list[Event]) -> None:
        """Make the same training step two or three times, and disturb the last but one."""
        self.state.train(calls, n, events)

    @rule(calls=CALLS, n=NUMBERS, events=DISTURBANCES)
    def train_more(self, calls: Calls, n: Picks, events: list[Event]) -> None:
        """Do so twice as often as anything else."""
        self.state.train(calls, n, events)


def run_machine(
    provider: str, precision: str, runs: int, steps: int, number: int, shrink: bool = False
) -> Seen:
    """Drive so many runs of so many steps; the same number always drives the same ones.

    Shrinking finds a shorter program that breaks the promise, and takes minutes.
    """
    seen = Seen()
    chosen = {"provider": provider, "precision": precision, "seen": seen}
    machine = seed(number)(type("Driven", (SessionMachine,), chosen))
    with settled(), seen.watching(), reproducible(), independent():
        run_state_machine_as_test(
            machine, settings=drawing(runs, shrink, stateful_step_count=steps)
        )
    return seen


def machine_rows(profile: str) -> list[Row]:
    """Return the rows of a profile: batches of runs at every configuration."""
    batches = -(-PROFILES[profile] // BATCH)
    return [
        Row(NAME if batches == 1 else f"{NAME}-{batch + 1}", *configuration)
        for batch in range(batches)
        for configuration in CONFIGURATIONS
    ]


def judge_machine(profile: str, number: int, shrink: bool, row: Row) -> RowResult:
    """Drive the runs of a row; the same number always drives the same ones."""
    at = number + machine_rows(profile).index(row)
    runs = min(BATCH, PROFILES[profile])
    seen = run_machine(row.direction, row.dtype, runs, STEPS[profile], at, shrink)
    return seen.result(row, runs)
