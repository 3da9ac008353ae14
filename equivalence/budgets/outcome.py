"""What became of one case: fractions, counts, and the element to look at."""

from __future__ import annotations

from dataclasses import dataclass

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Detail:
    """The first bad element of the result that is worst."""

    result: str
    index: Shape
    got: str
    exact: str
    budget: str
    fraction: float

    def line(self) -> str:
        """Return the element in words."""
        return (
            f"{self.result}{list(self.index)}: got {self.got}, exact {self.exact}, "
            f"budget {self.budget}; worst fraction {self.fraction:.3g}"
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one case."""

    fraction: float | None = None
    judged: int = 0
    unconstrained: int = 0
    detail: Detail | None = None
    problem: str | None = None
    crash: str | None = None

    @property
    def failed(self) -> bool:
        """Whether the backend is over budget, or did something that it must not."""
        over = self.fraction is not None and not self.fraction <= 1
        return over or self.problem is not None or self.crash is not None


def merged(one: Outcome, two: Outcome) -> Outcome:
    """Put two outcomes of a case together; the worse one keeps its detail."""
    fractions = [f for f in (one.fraction, two.fraction) if f is not None]
    worse = two if (two.fraction or 0.0) > (one.fraction or 0.0) else one
    return Outcome(
        max(fractions, default=None),
        one.judged + two.judged,
        one.unconstrained + two.unconstrained,
        worse.detail or one.detail or two.detail,
        one.problem or two.problem,
        one.crash or two.crash,
    )
