"""The process that `python -m benchmarks start` times: one training step, and when it was done.

python -m benchmarks.first_step WORK prints one line of JSON: when the imports were done, when the
loss of the first step was read, both on the clock of `time.time`, and that loss.
"""

from __future__ import annotations

import json
import sys
from time import time


def main(name: str) -> None:
    """Import what a step needs, draw its data, take it, and read its loss."""
    import torch

    from benchmarks.works import WORKS
    from fast import CompiledSession

    torch.set_num_threads(1)
    (work,) = (work for work in WORKS if work.name == name)
    values, data = work.parameters(), tuple(map(torch.from_numpy, work.data()))
    imported = time()
    session = CompiledSession(provider="aten", engine="inductor")
    params = [session.param(value) for value in values]
    loss = session.run(work.ours, params, data)
    session.adamw_step(1e-3, grads=session.backward(loss))
    found = float(session.value(loss))
    print(json.dumps({"imported": imported, "done": time(), "loss": found}))


if __name__ == "__main__":
    main(*sys.argv[1:])
