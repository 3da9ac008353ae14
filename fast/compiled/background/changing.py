"""A session whose engine may change between steps, and what is compiled beside them."""

from __future__ import annotations

from fast.compiled import inductor
from fast.compiled.background.compiler import REPLAY, Compiler
from fast.compiled.background.patient import Patient, Waiting
from fast.compiled.deferring import Deferring
from fast.compiled.recorded.plan import Plan
from fast.errors import Unavailable
from fast.tape import Tape


class Changing(Deferring):
    """A session that replays until artifacts are there, where its engine is "auto"."""

    @property
    def engines(self) -> tuple[tuple[str, int], ...]:
        """Which engines took the session's updates, in turns: ("replay", 37), ("inductor", 963).

        It is kept for the engine "auto", and empty for others, whose own name says it.
        """
        return () if self._compiler is None else tuple(self._compiler.engines)

    @engines.setter
    def engines(self, turns: tuple[tuple[str, int], ...]) -> None:
        if self._compiler is not None:
            self._compiler.engines = [*turns]

    def _require_inductor(self) -> None:
        if self.options.provider != "aten" or self.options.device.type != "cpu":
            raise Unavailable(
                "engine 'inductor': it compiles the provider aten for a CPU, and this session has "
                f"provider {self.options.provider!r} on {self.options.device}; engine 'replay' runs"
            )
        inductor.require()

    def _begin_by_replay(self) -> None:
        """Compile beside the steps from now on; say so where that cannot be."""
        self._waits, self._compiler = Waiting, Compiler(self)
        try:
            self._require_inductor()
        except Unavailable as error:
            self._compiler.stop(str(error))

    def _patient(self, plan: Plan, tape: Tape, integers: int) -> Patient | None:
        """Let a recording, which has just run, be compiled beside its replays, if it can be."""
        assert self._compiler is not None
        self._compiler.last = REPLAY
        if self._compiler.stopped or any(call.buffers for call in plan.calls):
            return None
        return Patient(plan, tape, integers, self._bound, self._compiler)
