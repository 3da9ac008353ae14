"""At which extents of a call a kernel is wrong: a rule that tells them from those where it is not.

A kernel that works in blocks is wrong where the last block is not full, and one that pads its rows
is wrong where there is padding. The smallest case of such a kernel shows neither.
"""

from __future__ import annotations

from collections.abc import Mapping

TELLING = (2, 3, 5, 16, 64, 256, 1024)
"""The extents that are tried first: the others are of use only where these differ."""

TRIED = (
    *(1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 96, 127, 128, 129),
    *(192, 255, 256, 257, 384, 511, 512, 513, 768, 1023, 1024, 1025),
)
"""The extents that are tried, in their order: at and around powers of two, and between them."""

FEW, MANY = 2, 8
"""How many extents have to pass, and how many to fail, and how many both, for a rule to be told."""


def rule(failing: Mapping[int, bool]) -> str:
    """Say at which extents a call fails, if a rule separates them from those at which it passes.

    failing says of each extent that was tried whether the call fails there.

    >>> rule({n: n % 4 > 0 for n in range(1, 13)})
    'passes at multiples of 4, and fails at all others: is the last block masked where it is not \
full?'
    >>> rule({n: n % 3 == 0 for n in range(1, 13)})
    ''
    """
    bad = [n for n, fails in failing.items() if fails]
    good = [n for n, fails in failing.items() if not fails]
    if min(len(bad), len(good)) < FEW or len(failing) < MANY:
        return ""
    if max(good) < min(bad):
        return (
            f"passes up to {max(good)}, and fails from {min(bad)} on: is what lies behind a first "
            "block left out?"
        )
    if max(bad) < min(good):
        return f"fails up to {max(bad)}, and passes from {min(good)} on"
    block = next((b for b in (2**k for k in range(10, 0, -1)) if good == _multiples(failing, b)), 0)
    if block:
        return (
            f"passes at multiples of {block}, and fails at all others: is the last block masked "
            "where it is not full?"
        )
    if good == [n for n in failing if n & (n - 1) == 0]:
        return "passes at powers of two, and fails at all others: are padded lanes masked?"
    return ""


def _multiples(failing: Mapping[int, bool], block: int) -> list[int]:
    return [n for n in failing if n % block == 0]
