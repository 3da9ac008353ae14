"""Saves checkpoints over and over, to be killed: one parent that is warm, a forked child per kill.

`python saver.py FILE SIZE` writes a line for each thing that happens:

    child PID          a child begins; it is to be killed
    begin N CHECKSUM   it begins to save its N-th checkpoint, whose contents have this checksum
    end N              that checkpoint is saved
    gone               the child is dead and said all it had to say

Each line on standard input asks for one more child, and the end of the input ends the parent.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from zlib import crc32

import torch

from fast import Session, checkpoint


def session(size: int) -> Session:
    """A session with state of every kind; its numbers are filled in before each save."""
    made = Session(provider="aten", device="cpu")
    for name in ("w", "b"):
        made.param(torch.zeros(size), name=name)
    return made


def fill(held: Session, seed: int) -> int:
    """Let every tensor depend on the seed, and return the checksum."""
    for k, parameter in enumerate(held.params):
        parameter.set(torch.full(parameter.shape, float(seed + k)))
        moments = {
            "exp_avg": torch.full(parameter.shape, float(seed + k) + 0.25),
            "exp_avg_sq": torch.full(parameter.shape, float(seed + k) + 0.5),
        }
        held.load_optimizer_state("adamw", parameter, {**moments, "step": seed + 1})
    return checksum(held)


def checksum(held: Session) -> int:
    """Sum up every byte of the parameters and their moments, and the step counts."""
    found = 0
    for parameter in held.params:
        state = held.optimizer_state("adamw", parameter)
        for tensor in (parameter.value(), state["exp_avg"], state["exp_avg_sq"]):
            found = crc32(tensor.numpy().tobytes(), found)
        found = crc32(str(state["step"]).encode(), found)
    return found


def say(*words: object) -> None:
    """Write a line in one piece, past every buffer that a kill would empty."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def save_for_ever(held: Session, path: Path, first: int) -> None:
    """Save one checkpoint after the other, each with other contents."""
    number = first
    while True:
        say("begin", number, fill(held, number))
        checkpoint.save(path, held, {"number": number})
        say("end", number)
        number += 1


def main() -> None:
    """Fork a child for each line on standard input, and wait until it is dead."""
    path, held = Path(sys.argv[1]), session(int(sys.argv[2]))
    fill(held, 0)
    for count, _ in enumerate(sys.stdin):
        child = os.fork()
        if child == 0:
            say("child", os.getpid())
            save_for_ever(held, path, 1000 * (count + 1))
        os.waitpid(child, 0)
        say("gone")


if __name__ == "__main__":
    main()
