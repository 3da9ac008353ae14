"""Chapter 42. Where to start: `python -m spec` prints it, `python -m spec tape` prints a chapter.

>>> print(START.splitlines()[0])
spec: a slow, exact reference for tensors and gradients, in plain Python.
>>> main(["ops.exp"]).count("def ") > 0
True
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from spec.ops import OPS
from spec.refusals import Rejected, unknown

START = """\
spec: a slow, exact reference for tensors and gradients, in plain Python.

    from spec import Session, tensor

    s = Session()
    w = s.use(s.param(tensor([1.0, -2.0]), name="w"))
    loss = s.sum(w * w)
    print(s.grad(s.backward(loss), w))        # Tensor([2.0, -4.0])

gradients of a function   from spec import grad, jvp, vjp, hessian; help(grad)
every operation           from spec import OPS; print(OPS["softmax"])
a tape as text            from spec.show import ledger, dot; print(ledger(s, loss))
a tape as a picture       from spec.picture import svg; open("tape.svg", "w").write(svg(s, loss))
a composite's own steps   from spec.show import opened; svg(opened(s, "softmax"), loss)
a backward pass in words  from spec.show import event; Session(observer=lambda e: print(event(e)))
the book                  {book}
a way to reverse mode     {reverse}
    read a chapter        python -m spec tape
    or an operation       python -m spec ops.softmax
"""


def main(arguments: Sequence[str]) -> str:
    """Return the page where to start, or the text of the chapter or the operation that is named.

    Another name is Rejected, with the nearest.
    """
    package: Any = importlib.import_module("spec")
    chapters = package.CHAPTERS[:-1]
    if arguments:
        return _text(arguments[0], [*chapters, *(f"ops.{name}" for name in OPS)])
    book = f"{len(chapters)} chapters, spec.CHAPTERS: {chapters[0]} to {chapters[-1]}"
    return START.format(book=book, reverse=", ".join(package.REVERSE_MODE))


def _text(name: str, known: Sequence[str]) -> str:
    """Return the source of a file of the book: a chapter is read, not only called."""
    wanted = f"ops.{name}" if name in OPS and name not in known else name
    if wanted not in known:
        raise unknown("spec", "chapter or operation", name, known)
    *folders, last = wanted.split(".")
    folder = files("spec").joinpath(*folders)
    page = folder.joinpath(f"{last}.py")
    found = page if page.is_file() else folder.joinpath(last, "__init__.py")
    return found.read_text(encoding="utf-8")


if __name__ == "__main__":
    try:
        print(main(sys.argv[1:]), end="")
    except Rejected as refusal:
        sys.exit(str(refusal))
