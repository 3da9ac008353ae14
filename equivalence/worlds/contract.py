"""Contracts: what arithmetic a backend promises, and the ladder of promises.

A contract is a record, not code.
It says in which format a backend computes, accumulates and stores, how far each elementary function
may be from the truth, and what may happen to subnormal numbers; `equivalence.worlds.bounded` turns
it into a budget for every element of every result.
The unit of a relative error is u, the unit roundoff of the format of computation: an error of one
unit in the last place is at most 2 u.

`rungs` lists weaker and weaker arithmetics, tightest first, so that a result can be asked which of
them it is compatible with ("behaves like bf16 accumulation").

>>> FP32.unit == 2.0**-24, BF16.max_finite
(True, 3.3895313892515355e+38)
>>> [rung.name for rung in rungs(Contract("example", compute=FP32, store=BF16))]
['f32-acc+1 store', 'bf16-intermediates', 'bf16-acc']
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from equivalence.blame import Refused, place_of, raised
from equivalence.dtypes import BF16, FORMATS, FP16, FP32, FP64, TF32, Format
from spec.op import Op

__all__ = [
    "BF16",
    "CORRECTLY_ROUNDED",
    "FORMATS",
    "FP16",
    "FP32",
    "FP64",
    "LADDER",
    "TF32",
    "Contract",
    "ContractRule",
    "Form",
    "FormFailed",
    "Format",
    "FunctionError",
    "Rung",
    "of_result",
    "programs_of",
    "rungs",
    "ulps",
]

Rounding = Literal["nearest", "toward_zero", "faithful"]
"""Faithful rounding returns one of the two neighbours, whichever: it may mix the other two."""
Division = Literal["rn", "full", "reciprocal"]
Flush = Literal["none", "outputs", "inputs_outputs"]
Freedom = Literal["page", "stable"]


MOST_UNITS = 8.0
"""How many units of its value an elementary function of a library errs by at most.

A contract may declare more, of an argument that was stored; no other function would err so.
"""


@dataclass(frozen=True, slots=True)
class FunctionError:
    """How far a computed y = f(x) may be from f(x), and who says so.

    error <= (relative + slope |x|) u |y| + absolute, with relative and slope in units of u.
    exact_values says that a representable f(x) at a representable x, such as exp(0) = 1, is
    returned as it is.
    """

    relative: float = 1.0
    absolute: float = 0.0
    slope: float = 0.0
    exact_values: bool = True
    source: str = "correctly rounded"

    @property
    def units(self) -> float:
        """How many units another function may err by in its place: as many, up to MOST_UNITS."""
        return min(self.relative, MOST_UNITS)


CORRECTLY_ROUNDED = FunctionError()


def ulps(count: float, source: str) -> FunctionError:
    """Return the error of a function that is within count units in the last place."""
    return FunctionError(relative=2.0 * count, source=source)


@dataclass(frozen=True, slots=True)
class Form:
    """Another program of the same page, which a backend may follow instead of the page's own.

    value(*inputs, **attributes) returns the result and vjp(inputs, cotangent, **attributes) the
    gradients, as on a page: tensors of `spec`, in every world of numbers. A direction of None has
    no other program, and a gradient of None is left to the others. The exact values must be those
    of the page, or the oracle refuses the form.
    """

    name: str
    value: Callable[..., Any] | None = None
    vjp: Callable[..., Any] | None = None


class FormFailed(Refused):
    """A form of a contract raised; the message says which, and where. The backend did nothing."""


@dataclass(frozen=True, slots=True)
class Contract:
    """The arithmetic that a backend promises for an op at a dtype.

    compute           the format of intermediate results
    store             the format to which results are rounded, and how
    casts             the rounding and the flush of a cast into a format, by its name, where they
                      are not "nearest" and that of the contract
    results           the dtype in which results arrive (None: that of storage); a rung of the
                      ladder may round to bf16 and still hand over float32
    functions         the error of exp, log, tanh, sqrt, cos, sin; of others, correctly rounded
    division          "rn" correctly rounded, "full" within 2 ulp, "reciprocal" x * (1 / y)
    flush             where a subnormal number may be replaced by zero, or by any other subnormal
    stores_flushed    whether that holds of storage, too: a conversion to a narrower exponent may
                      keep subnormal numbers where arithmetic flushes its own
    contraction       whether x * y + z may be rounded once; this drops roundings and adds none, so
                      a budget does not depend on it
    reduction         "any_order": a sum may be taken along any tree
    dot_inputs        the format to which the factors of a dot product are rounded, if to any
    steps             "storage": every intermediate result may pass through the storage format
    accumulate        the format of partial sums (None: that of computation)
    freedom           "page": what the page's own steps may give; "stable": also what a program that
                      is as stable as the page may lose, d u of the largest term of its last sum
    forms             other programs of the page that count as well: the budget is the hull
    granted           what was taken over from a library, in words; a report says it of a stranger
    findings          the libraries whose findings excuse failures of this contract's backend, too
    sources           where the other numbers come from
    """

    name: str
    compute: Format
    store: Format
    store_rounding: Rounding = "nearest"
    functions: Mapping[str, FunctionError] = field(default_factory=dict[str, FunctionError])
    division: Division = "rn"
    flush: Flush = "none"
    stores_flushed: bool = True
    contraction: bool = True
    reduction: Literal["any_order"] = "any_order"
    dot_inputs: Format | None = None
    dot_rounding: Rounding = "nearest"
    steps: Literal["compute", "storage"] = "compute"
    accumulate: Format | None = None
    accumulate_rounding: Rounding = "nearest"
    results: Format | None = None
    casts: Mapping[str, tuple[Rounding, Flush]] = field(
        default_factory=dict[str, tuple[Rounding, Flush]]
    )
    freedom: Freedom = "stable"
    forms: tuple[Form, ...] = ()
    granted: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    @property
    def dtype(self) -> Format:
        """The format of the dtype in which results arrive."""
        return self.results or self.store

    @property
    def allows(self) -> str:
        """Name the freedom that the contract takes, and the forms that it allows."""
        return ", ".join((self.freedom, *(form.name for form in self.forms)))

    def function(self, name: str) -> FunctionError:
        """Return the declared error of an elementary function."""
        return self.functions.get(name, CORRECTLY_ROUNDED)

    @property
    def rung(self) -> str:
        """The name of the rung of the ladder that this contract stands on."""
        wide, narrow = self.compute.short, _narrow(self).short
        if self.accumulate not in (None, self.compute):
            return f"{narrow}-acc"
        if self.steps == "storage" and self.store != self.compute:
            return f"{narrow}-intermediates"
        if self.store.precision < self.compute.precision:
            return f"{wide}-acc+1 store"
        if self.dot_inputs == TF32:
            return "tf32-in"
        return f"ieee-{wide}" if self.dot_inputs is None else f"{narrow}-in/{wide}-acc"


def programs_of(contract: Contract, direction: Literal["value", "vjp"]) -> list[Callable[..., Any]]:
    """Return the programs of a contract's forms in a direction; what one raises is FormFailed."""
    forms = [(form.name, getattr(form, direction)) for form in contract.forms]
    return [_blamed(name, direction, run) for name, run in forms if run is not None]


def _blamed(name: str, direction: str, run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a form's program, whose own faults are told apart from those of the suite."""

    def program(*given: Any, **attributes: Any) -> Any:
        try:
            return run(*given, **attributes)
        except Exception as error:
            if not place_of(error):
                raise  # a form that ships with the suite
            raise FormFailed(
                f"the {direction} of the form {name!r} raised {raised(error)}; it is part of the "
                "contract, and has to run on every call of the page; the backend did nothing wrong"
            ) from error

    return program


ContractRule = Callable[[str, str], Contract]
"""The contract of one operation (or optimizer) in one dtype."""


def of_result(
    contract: Contract, page: Op, attributes: Mapping[str, Any], back: bool = False
) -> Contract:
    """Return the contract of an op whose result is not in the dtype of its inputs.

    A cast is stored in the format that it names, and its gradient, which goes back, was read from
    there. Positions are integers, which no step rounds; what the contract says of subnormal numbers
    stays: they are compared as they are read.
    """
    if page.converts:
        to: str = attributes["to"]
        rounding, flush = contract.casts.get(to, ("nearest", contract.flush))
        if back:
            return contract if flush == "none" else replace(contract, flush=flush)
        return replace(
            contract, store=FORMATS[to], store_rounding=rounding, flush=flush, results=None
        )
    if page.kind != "positions":
        return contract
    exact = Format("int64", 63, contract.compute.min_exponent, FP64.max_exponent)
    return replace(
        contract, compute=exact, store=exact, results=None, steps="compute", accumulate=None
    )


@dataclass(frozen=True, slots=True)
class Rung:
    """One step of the ladder: a name, and a contract weakened to it."""

    name: str
    contract: Contract


Transform = Callable[[Contract, Format], Contract]


def _ieee(c: Contract, narrow: Format) -> Contract:
    return replace(
        c,
        store=c.compute,
        store_rounding="nearest",
        dot_inputs=None,
        steps="compute",
        accumulate=None,
        accumulate_rounding="nearest",
    )


def _tf32_in(c: Contract, narrow: Format) -> Contract:
    return replace(
        c, dot_inputs=TF32, dot_rounding="toward_zero", accumulate_rounding="toward_zero"
    )


def _narrow_in(c: Contract, narrow: Format) -> Contract:
    return replace(c, dot_inputs=narrow, dot_rounding="nearest")


def _one_store(c: Contract, narrow: Format) -> Contract:
    return replace(c, store=narrow)


def _narrow_steps(c: Contract, narrow: Format) -> Contract:
    return replace(c, steps="storage")


def _narrow_sums(c: Contract, narrow: Format) -> Contract:
    return replace(c, accumulate=narrow)


LADDER: tuple[tuple[str, Transform], ...] = (
    ("ieee-{wide}", _ieee),
    ("tf32-in", _tf32_in),
    ("{narrow}-in/{wide}-acc", _narrow_in),
    ("{wide}-acc+1 store", _one_store),
    ("{narrow}-intermediates", _narrow_steps),
    ("{narrow}-acc", _narrow_sums),
)
"""The ladder, tightest first: each transform is applied on top of those before it."""

_FROM_STORE = 3


def rungs(contract: Contract) -> tuple[Rung, ...]:
    """List the candidates for an inferred contract, tightest first.

    Functions, division and flushing stay as declared; formats are weakened step by step.
    What is computed in a wide format and stored in a narrow one starts at the rung of one store,
    for its inputs are narrow already; formats other than fp32 have no tensor-core rungs.
    """
    narrow = _narrow(contract)
    names = {"wide": contract.compute.short, "narrow": narrow.short}
    stored = contract.store.precision < contract.compute.precision
    current, found = replace(contract, results=contract.dtype), []
    for k, (name, weaken) in enumerate(LADDER):
        if 0 < k < _FROM_STORE and (stored or contract.compute != FP32):
            continue
        current = weaken(current, narrow)
        if stored and k == _FROM_STORE:
            current = replace(current, store_rounding=contract.store_rounding)
        if k >= _FROM_STORE or not stored:
            found.append(Rung(name.format(**names), current))
    return tuple(found)


def _narrow(contract: Contract) -> Format:
    """The narrow partner: the storage format if it is narrower, else the next format down."""
    if contract.store.precision < contract.compute.precision:
        return contract.store
    return FP32 if contract.compute == FP64 else BF16
