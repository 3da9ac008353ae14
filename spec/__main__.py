"""Chapter 38. Where to start: `python -m spec` prints it.

>>> print(START.splitlines()[0])
spec: a slow, exact reference for tensors and gradients, in plain Python.
"""

from __future__ import annotations

import importlib
from typing import Any

START = """\
spec: a slow, exact reference for tensors and gradients, in plain Python.

    from spec import Session, tensor

    s = Session()
    w = s.use(s.param(tensor([1.0, -2.0]), name="w"))
    loss = s.sum(w * w)
    print(s.grad(s.backward(loss), w))        # Tensor([2.0, -4.0])

gradients of a function   from spec import grad, jvp, vjp, hessian; help(grad)
every operation           from spec import OPS; print(OPS["softmax"]); help("spec.ops.softmax")
a tape as text            from spec.show import ledger, dot, event; help("spec.show")
a tape as a picture       from spec.picture import svg; open("tape.svg", "w").write(svg(s, loss))
the book                  {book}
a way to reverse mode     {reverse}
    read one with         python -c "help('spec.tape')"
"""


def main() -> None:
    """Print the page."""
    package: Any = importlib.import_module("spec")
    chapters = package.CHAPTERS[:-1]
    book = f"{len(chapters)} chapters, spec.CHAPTERS: {chapters[0]} to {chapters[-1]}"
    print(START.format(book=book, reverse=", ".join(package.REVERSE_MODE)), end="")


if __name__ == "__main__":
    main()
