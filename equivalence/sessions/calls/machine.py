"""The state machine of calls: programs that an engine compiles, in any order with all else.

    python -m equivalence machine --engine inductor --profile quick --seed 1

What an engine may get wrong is seldom a sum. It is what it puts off, and when it computes it; whose
memory it writes to; which artifact it takes for the same. So the same few programs are called again
and again, and between their calls everything happens that can: looks at values and gradients, sums
of passes, updates, writes, checkpoints, bad data.
"""

from __future__ import annotations

from hypothesis import seed
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from equivalence.cases.families.family import Picks
from equivalence.draws import reproducible
from equivalence.runs.results import Row, RowResult
from equivalence.sessions.calls.programs import SHAPES, SHARED
from equivalence.sessions.calls.run import Calls
from equivalence.sessions.drawn import drawing
from equivalence.sessions.seen import Seen

RUNS = {"quick": 6, "ci": 30, "thorough": 200}
STEPS = {"quick": 20, "ci": 30, "thorough": 50}
PROGRAMS = {"quick": 2, "ci": 4, "thorough": len(SHARED)}
"""How many programs the runs of a profile share: each of them is some artifacts, of 10 to 40 s."""

MOST_GRADS = 3

RATES = (0.5, 0.125, 0.03125)

NUMBERS = st.tuples(*[st.integers(0, 99)] * 3)

MOVES = (
    *["call"] * 3, *["train"] * 3, "refuse", "value", "value", *["backward"] * 2, *["into"] * 2,
    *["ask"] * 2, *["step"] * 2, "set", "release", "reset", "save", "load",
)  # fmt: skip
"""What may happen; what is named more often happens more often."""


class Moves:
    """A run, and everything that may happen in it, decided by three numbers.

    A move does what its name says with what there is; where nothing fits it does nothing.
    """

    def __init__(self, engine: str, precision: str, programs: int) -> None:
        """Start a run."""
        self.run = Calls(engine, precision)
        self.programs = programs

    def call(self, n: Picks) -> None:
        """Call a program."""
        for slot in self.run.wild:
            self.run.set(slot, n[1])
        self.run.call(n[0] % self.programs, n[1])

    def train(self, n: Picks) -> None:
        """Call a program, go back, and update, as trainings do: nobody looks between."""
        self.call(n)
        if len(self.run.grads) < MOST_GRADS:
            self.run.backward(0)
            self.run.step(max(self.run.grads), RATES[n[2] % len(RATES)])

    def refuse(self, n: Picks) -> None:
        """Call one with bad data."""
        self.run.refuse(n[0] % self.programs, n[1])

    def value(self, n: Picks) -> None:
        """Look at a result, unless it is a parameter that has changed."""
        if self.run.at is not None and not (n[0] % 3 == 2 and self.run.stale):
            self.run.value(min(n[0] % 3, len(self.run.at.due) - 1, 1 if self.run.stale else 2))

    def backward(self, n: Picks) -> None:
        """Send a cotangent back."""
        if self.run.at is not None and len(self.run.grads) < MOST_GRADS:
            self._back(n, None)

    def into(self, n: Picks) -> None:
        """Send a cotangent back on top of what is there, as a rule after another call."""
        if self.run.grads:
            if n[1] % 4:
                self.call(n)
            if self.run.at is not None and not self.run.stale:
                self._back(n, self._grads(n[2]))

    def _back(self, n: Picks, into: int | None) -> None:
        assert self.run.at is not None
        which = 0 if n[0] % 4 else min(n[2] % 2, len(self.run.at.due) - 1)
        self.run.backward(which, None if n[1] % 3 else n[1], into)

    def ask(self, n: Picks) -> None:
        """Look a gradient up."""
        if self.run.grads:
            grads = self._grads(n[0])
            held = self.run.grads[grads]
            known = sorted(held.due)
            if known:
                self.run.ask(grads, known[n[1] % len(known)])

    def step(self, n: Picks) -> None:
        """Update parameters."""
        if self.run.grads:
            self.run.step(self._grads(n[0]), RATES[n[1] % len(RATES)])

    def set(self, n: Picks) -> None:
        """Overwrite a parameter."""
        self.run.set(n[0] % len(SHAPES), n[1])

    def release(self, n: Picks) -> None:
        """Give gradients back."""
        if self.run.grads:
            self.run.release(self._grads(n[0]))

    def reset(self, n: Picks) -> None:
        """Forget the tape."""
        self.run.reset()

    def save(self, n: Picks) -> None:
        """Write a checkpoint."""
        self.run.save()

    def load(self, n: Picks) -> None:
        """Go back to the checkpoint."""
        if self.run.saved is not None:
            self.run.load()

    def _grads(self, which: int) -> int:
        return sorted(self.run.grads)[which % len(self.run.grads)]


class CallsMachine(RuleBasedStateMachine):
    """What may happen in a run of calls, in any order."""

    engine, precision, programs = "inductor", "fp32", 1
    seen: Seen

    def __init__(self) -> None:
        """Start a run."""
        super().__init__()
        self.state = Moves(self.engine, self.precision, self.programs)

    def teardown(self) -> None:
        """End it: all memory has been given back."""
        run = self.state.run
        self.seen.add(run.ledger, len(run.program))
        if not run.broken:
            run.end()

    @rule(move=st.sampled_from(MOVES), n=NUMBERS)
    def moves(self, move: str, n: Picks) -> None:
        """Make one of the moves."""
        getattr(self.state, move)(n)


def run_calls(
    engine: str, precision: str, programs: int, runs: int, steps: int, number: int,
    shrink: bool = False,
) -> Seen:  # fmt: skip
    """Drive so many runs of so many steps over the first programs; a number drives the same ones.

    Shrinking finds a shorter run that breaks the promise, and takes minutes.
    """
    seen = Seen()
    chosen = {"engine": engine, "precision": precision, "programs": programs, "seen": seen}
    machine = seed(number)(type("Driven", (CallsMachine,), chosen))
    with seen.watching(), reproducible():
        run_state_machine_as_test(
            machine, settings=drawing(runs, shrink, stateful_step_count=steps)
        )
    return seen


def judge_calls(profile: str, number: int, shrink: bool, row: Row) -> RowResult:
    """Drive the runs of a row at a profile."""
    runs, steps, programs = RUNS[profile], STEPS[profile], PROGRAMS[profile]
    return run_calls(row.op, row.dtype, programs, runs, steps, number, shrink).result(row, runs)
