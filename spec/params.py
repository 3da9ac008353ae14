"""Chapter 34. Parameters: tensors that outlive every tape.

A session records the current value of a parameter as a leaf, once for each use; an update replaces
the value, and what has been recorded stays.

>>> from spec.tensor import tensor
>>> w = Param(tensor([1.0, -2.0]), "w", requires_grad=True)
>>> w.set(tensor([0.5, 0.5]))
>>> w, w.value, w.version
(Param(w, shape (2,)), Tensor([0.5, 0.5]), 1)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spec.op import AnyTensor, checked, need_shape, refuse
from spec.refusals import Unknown, hints, members, need_name, unknown
from spec.tape import flag

_USE = "write ops.use(x), which records its value, and calculate with that"
_SIGNS = ("add", "sub", "mul", "truediv", "matmul", "pow")


@hints(
    {f"__{reverse}{sign}__": _USE for sign in _SIGNS for reverse in ("", "r")}
    | dict.fromkeys(("__getitem__", "__abs__"), _USE)
    | dict.fromkeys(("__float__", "__int__", "__array__"), "write x.value")
)
class Param:
    """A tensor that outlives the tape; optimizers update it unless requires_grad is False."""

    def __init__(self, value: AnyTensor, name: str | None, requires_grad: bool) -> None:
        """Hold a first value; what is no tensor, and a flag that is no bool, are Rejected."""
        need_name("param", name)
        self.name = name
        self.requires_grad = flag("param", requires_grad)
        self.version = 0
        self._value = checked("param", value)

    def __repr__(self) -> str:
        """Show name, shape and whether it is trained."""
        name = "" if self.name is None else f"{self.name}, "
        return f"Param({name}shape {self.value.shape}{'' if self.requires_grad else ', frozen'})"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Refuse a name, with the nearest."""
            if name.startswith("_"):
                raise AttributeError(f"'Param' object has no attribute {name!r}")
            if name == "grad":
                rule = "gradients are what backward() returns, and session.grad(them, ref) finds"
                raise Unknown(f"Param: there is no x.grad; {rule}")
            if name in ("data", "item", "numpy", "tolist"):
                raise Unknown(f"Param: there is no x.{name}; write x.value")
            if name in ("T", "sum", "mean", "max", "min", "reshape", "view", "detach"):
                raise Unknown(f"Param: there is no x.{name}; {_USE}")
            raise unknown("Param", "attribute", name, members(self))

    @property
    def value(self) -> AnyTensor:
        """The current value."""
        return self._value

    def set(self, value: AnyTensor) -> None:
        """Overwrite the value, and raise the version; another shape is Rejected, naming both."""
        shape = self._value.shape
        rule = f"a value of {self.name or 'the parameter'} has the shape {shape}"
        need_shape("param", rule, shape, value)
        self._value = value
        self.version += 1


class Leaves(dict[int, Param]):
    """The parameters in use on a record, by leaf; `frozen` are the leaves that were not trainable.

    Thawing a parameter later does not make a leaf trainable.
    """

    def __init__(self) -> None:
        """Start with none."""
        super().__init__()
        self.frozen: set[int] = set()

    def __setitem__(self, leaf: int, param: Param) -> None:
        """Enter a leaf."""
        super().__setitem__(leaf, param)
        if not param.requires_grad:
            self.frozen.add(leaf)


def param_of(who: str, param: object) -> Param:
    """Return a parameter unchanged, or refuse what is none."""
    if not isinstance(param, Param):
        raise refuse(who, "a parameter is a Param", type(param).__name__)
    return param
