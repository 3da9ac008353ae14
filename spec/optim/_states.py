"""What the states of the optimizers share: a state that is loaded fits its parameter.

>>> from spec.tensor import tensor
>>> check_state("w", (1,), sgd.State(tensor([1.0])))
"""

from __future__ import annotations

from spec.op import need_shape, refuse
from spec.optim import adam, adamw, sgd
from spec.shape import Shape


def check_state(name: str, shape: Shape, state: object) -> None:
    """Refuse what is no page's state, or not that of a parameter of this shape."""
    if not isinstance(state, (sgd.State, adam.State, adamw.State)):
        rule = "a state is None or the State of sgd, adam or adamw"
        raise refuse("load_state", rule, type(state).__name__)
    for part, found in vars(state).items():
        if part == "step":
            if type(found) is not int or found < 0:
                raise refuse("load_state", "step is an integer >= 0", repr(found))
        elif found is not None or not isinstance(state, sgd.State):
            rule = f"{part} is a tensor of the shape {shape} of {name}"
            need_shape("load_state", rule, shape, found)
