"""What a recorded program is run on: a list of parameters, and a list of data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fast.errors import Rejected, SessionError
from fast.kernels.checks import is_row
from fast.runtime.param import Param
from fast.runtime.store import Store


def check_lists(store: Store, params: Sequence[Param], inputs: Sequence[Any]) -> None:
    """Refuse what is no list of parameters of a store, and no list of inputs."""
    for name, what, given in (("params", "parameters", params), ("inputs", "data", inputs)):
        if not isinstance(given, (list, tuple)) and not is_row(given):
            way = f"[*{name}.values()]" if isinstance(given, Mapping) else "[x]"
            raise Rejected(
                f"run: {name} is a list of {what}, in the order of the program's arguments, "
                f"such as {way}; got {type(given).__name__}"
            )
    for parameter in params:
        if type(parameter) is not Param or parameter.store is not store:
            raise SessionError(
                "run: params is a list of parameters, which param() makes; "
                f"{parameter!r} is not a parameter of this session"
            )
