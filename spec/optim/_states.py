"""What the states of the optimizers share: a state that is loaded fits its parameter.

>>> from spec.tensor import tensor
>>> check_state("w", (1,), OPTIMIZERS["sgd"].state(tensor([1.0])))
"""

from __future__ import annotations

from spec.op import need_shape, refuse
from spec.optim import OPTIMIZERS
from spec.shape import Shape


def check_state(name: str, shape: Shape, state: object) -> None:
    """Refuse what is no page's state, or not that of a parameter of this shape."""
    page = next((page for page in OPTIMIZERS.values() if isinstance(state, page.state)), None)
    if page is None:
        *others, last = OPTIMIZERS
        rule = f"a state is None or the State of {', '.join(others)} or {last}"
        raise refuse("load_state", rule, type(state).__name__)
    for part in page.moments:
        found = getattr(state, part)
        if found is not None or not page.may_lack(part):
            rule = f"{part} is a tensor of the shape {shape} of {name}"
            need_shape("load_state", rule, shape, found)
    step = getattr(state, "step", 0)
    if type(step) is not int or step < 0:
        raise refuse("load_state", "step is an integer >= 0", repr(step))
