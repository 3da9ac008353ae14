"""The exact ring: kernels run line by line on exact numbers and equal their pages; cli may enter.

Every kernel starts from its page's own host, in Triton's interpreter, whose tiles hold exact
numbers; what it stores equals what the page of `spec` says by ==, with no tolerance. That is an
identity test: `python -m equivalence exact` prints with which probability a wrong formula passed.
It says nothing of rounding, overflow or what only a GPU shows. A stranger's kernel is run so:

    from equivalence.exact.points import standing
    from equivalence.registry import OPS

    with standing(seed=1) as point:
        x, y = point.draw((5, 7), (5, 7))             # shapes; Form says layouts and signs
        z = host(x.memory, y.memory)                  # allocates, and launches the kernel
        point.same("z", z, OPS["add"](x.numbers, y.numbers))
        verdict = point.verdict()
    assert not verdict.differences, verdict.differences

The kernel is decorated after fast was imported with TRITON_INTERPRET=1, takes fp32, and casts what
it loads as it likes. Where it rescales by exponentials, `standing(homomorphism=True)`.
"""
