"""The delta-sum calculus: when two expressions with sums of symbolic length are equal.

`reduced` brings an expression into a normal form by steps that are valid for every size:

* products and exponentials of sums of terms are multiplied out, and sums are split term by term;
* what does not depend on the variable of a sum is pulled out of it;
* a sum inside a sum becomes one sum over two variables, and one whose variables do not meet in any
  factor becomes a product of sums;
* a Kronecker delta removes the sum over its index, if the other index is known to lie in range;
* variables get canonical names, in the order that makes the body least.

What is left are atoms (entries, functions, sums) under rational operations and roots, where
`residual` decides whether a difference is zero.
A residual of 0 is a proof, as far as these rules and sympy's algebra of polynomials are right.
Any other residual proves nothing: it is what the calculus could not remove.

>>> from equivalence.worlds.symbols import entries, extent, index
>>> from spec.scalar import kronecker, sum_over
>>> n, x = extent("n"), entries("x", (extent("n"),))
>>> p = index("p", n)
>>> reduced(sum_over(n, lambda k: (x[k] + n) * kronecker(k, p)))
n + x[p]
>>> total = sum_over(n, lambda k: x[k])
>>> residual(sum_over(n, lambda j: sum_over(n, lambda k: x[j] * x[k])) - total**2)
0
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, TypeAlias

import sympy
from sympy.core.function import AppliedUndef

from equivalence.worlds.symbols import INDICATOR, LARGEST, extent_of, fresh, height, variable
from spec.op import AnyTensor
from spec.scalar import sum_over

Expr: TypeAlias = Any
Bound = tuple[Expr, ...]
"""The open indices over which a product is summed."""

SHARE: Expr = sympy.Function("share", real=True)
"""The unknown rate of a largest term by one of its candidates."""


def reduced(e: Expr) -> Expr:
    """Return the normal form of an expression."""
    if isinstance(e, sympy.Sum):
        body, bound = _opened(e)
        return _summed(reduced(body), bound)
    if isinstance(e, (sympy.Indexed, sympy.KroneckerDelta)):
        return e.func(*map(_position, e.args))
    if isinstance(e, (sympy.floor, sympy.Mod)):
        return _position(e)
    if not e.args or isinstance(e, (sympy.Idx, AppliedUndef)):
        return e
    parts = [reduced(a) for a in e.args]
    if isinstance(e, sympy.exp):
        return _expanded(sympy.Mul(*map(sympy.exp, sympy.Add.make_args(parts[0]))))
    return _expanded(e.func(*parts))


def _position(i: Expr) -> Expr:
    """Simplify quotients and remainders of an index whose parts have known ranges."""
    if not i.has(sympy.floor, sympy.Mod):
        return i
    remainders = i.replace(sympy.Mod, lambda a, b: a - b * sympy.floor(a / b))
    return remainders.replace(sympy.floor, _floor).expand()


def _floor(quotient: Expr) -> Expr:
    """Return the floor of a rising linear function of indices whose two ends have one floor."""
    terms = sympy.Add.make_args(quotient.expand())
    whole = sympy.Add(*(term for term in terms if term.is_integer))
    rest = sympy.Add(*(term for term in terms if not term.is_integer))
    low, high = _ends(rest)
    if low.is_Rational and (sympy.floor(low) + 1 - high).expand().is_positive:
        return whole + sympy.floor(low)
    return whole + sympy.floor(rest)


def _ends(e: Expr) -> tuple[Expr, Expr]:
    """Return the least and the largest value of a rising linear function of indices, or twice e."""
    known = ((k, extent_of(k)) for k in e.atoms(sympy.Idx, AppliedUndef))
    slopes = [(k, n - 1, e.coeff(k)) for k, n in known if n is not None]
    low = e - sympy.Add(*(slope * k for k, _, slope in slopes))
    if low.atoms(sympy.Idx, AppliedUndef) or not all(slope.is_positive for _, _, slope in slopes):
        return e, e
    return low, low + sympy.Add(*(slope * last for _, last, slope in slopes))


def _lies_below(position: Expr, size: Expr) -> bool:
    """Tell whether a position is known to be an index below a size."""
    if extent_of(position) == size:
        return True
    low, high = _ends(position)
    within = low.is_integer and low.is_nonnegative
    return bool(within and (size - 1 - high).expand().is_nonnegative)


def _expanded(e: Expr) -> Expr:
    """Multiply sums of terms out; denominators and roots stay as they are."""
    if e.is_Add:
        return sympy.Add(*map(_expanded, e.args))
    rest, sums = sympy.Integer(1), []
    for factor in sympy.Mul.make_args(e):
        base, power = factor.as_base_exp()
        if base.is_Add and power.is_Integer and power > 0:
            sums += [base] * power
        else:
            rest *= factor
    if not sums:
        return e
    terms = [rest]
    for one in sums:
        terms = [term * summand for term in terms for summand in one.args]
    return sympy.Add(*map(_expanded, terms))


def _opened(e: Expr) -> tuple[Expr, Bound]:
    """Return the body of a sum over fresh indices, and those indices."""
    new = {name: fresh(last + 1) for name, _, last in e.limits}
    return e.function.xreplace(new), tuple(new.values())


def _summed(e: Expr, bound: Bound) -> Expr:
    """Sum an expanded expression over open indices, term by term."""
    return sympy.Add(*(_summed_product(term, bound) for term in sympy.Add.make_args(e)))


def _summed_product(term: Expr, bound: Bound) -> Expr:
    factors = sympy.Mul.make_args(term)
    for factor in factors:
        base, power = factor.as_base_exp()
        if isinstance(base, sympy.Sum) and power.is_Integer and power > 0 and base.has(*bound):
            body, inner = _opened(base)
            return _summed(_expanded(term / base * body), bound + inner)
        if isinstance(base, sympy.KroneckerDelta):
            for index, other in (base.args, base.args[::-1]):
                if index in bound and not other.has(index) and _lies_below(other, extent_of(index)):
                    rest = (term / factor).xreplace({index: other})
                    return _summed(reduced(rest), tuple(k for k in bound if k != index))
    result = sympy.Mul(*(extent_of(k) for k in bound if not term.has(k)))
    for part, indices in _connected(factors, [k for k in bound if term.has(k)]):
        result *= _closed(part, indices) if indices else part
    return result


def _connected(factors: Iterable[Expr], bound: list[Expr]) -> list[tuple[Expr, Bound]]:
    """Split a product into parts that share no open index."""
    parts: list[tuple[Expr, Bound]] = []
    for factor in factors:
        indices = {k for k in bound if factor.has(k)}
        apart = []
        for part, known in parts:
            if indices & set(known):
                factor, indices = factor * part, indices | set(known)
            else:
                apart.append((part, known))
        parts = [*apart, (factor, tuple(k for k in bound if k in indices))]
    return parts


def _closed(body: Expr, bound: Bound) -> Expr:
    """Sum a product over its open indices, under canonical names."""
    level = height(body) + 1
    names = [variable(level + k) for k in range(len(bound))]

    def renamed(order: Bound) -> Expr:
        limits = [(n, 0, k.upper) for n, k in zip(names, order, strict=True)]
        return sympy.Sum(body.xreplace(dict(zip(order, names, strict=True))), *limits)

    return min(map(renamed, itertools.permutations(bound)), key=sympy.default_sort_key)


def residual(e: Expr) -> Expr:
    """Return 0 if the normal form of an expression is the zero of its field, else the form."""
    normal = reduced(sympy.sympify(e))
    roots = {f.base: sympy.Dummy("root") for f in normal.atoms(sympy.Pow) if _halves(f.exp)}
    names: dict[Expr, Expr] = {}
    numerator = _numerator(_rational(normal, roots, names))
    for base, root in roots.items():
        square = _rational(base, {}, names)
        powers = sympy.Poly(numerator, root).as_dict()
        numerator = _numerator(
            sum(c * square ** (k // 2) * root ** (k % 2) for (k,), c in powers.items())
        )
    return sympy.Integer(0) if numerator == 0 else normal


def _halves(power: Expr) -> bool:
    return bool(power.is_Rational and power.q == 2)


def _numerator(e: Expr) -> Expr:
    return sympy.fraction(sympy.together(e))[0].expand()


def _rational(e: Expr, roots: dict[Expr, Expr], names: dict[Expr, Expr]) -> Expr:
    """Write a normal form as a rational function of names for its atoms."""

    def of(part: Expr) -> Expr:
        if part.is_Rational:
            return part
        if part.is_Add or part.is_Mul:
            return part.func(*map(of, part.args))
        if isinstance(part, sympy.exp):
            times = part.args[0].as_coeff_Mul()[0]
            times = times if times.is_Integer else sympy.Integer(1)
            return names.setdefault(sympy.exp(part.args[0] / times), sympy.Dummy()) ** times
        if part.is_Pow and part.base in roots:
            return roots[part.base] ** (2 * part.exp)
        if part.is_Pow and part.exp.is_Integer:
            return of(part.base) ** part.exp
        return names.setdefault(part, sympy.Dummy())

    return of(e)


def differentiate(e: Expr, entry: Expr) -> Expr:
    """Differentiate by one entry of a tensor, or by a symbol; other entries differ by deltas.

    Of a largest term only the chain rule is used: its rate by the k-th candidate is an unknown
    share(..., k), so a residual that vanishes does so whatever the share is.
    """
    e = sympy.sympify(e)
    if not e.has(entry.base if isinstance(entry, sympy.Indexed) else entry):
        return sympy.Integer(0)
    if isinstance(e, sympy.Indexed):
        pairs = zip(e.indices, entry.indices, strict=True)
        return sympy.Mul(*(sympy.KroneckerDelta(_position(i), k) for i, k in pairs))
    if e == entry:
        return sympy.Integer(1)
    if isinstance(e, sympy.Sum):
        return sympy.Sum(differentiate(e.function, entry), *e.limits)
    if isinstance(e, sympy.Max):
        return sum(SHARE(e, a) * differentiate(a, entry) for a in e.args)
    if e.func == LARGEST:
        candidate, size = e.args
        return sum_over(size, lambda k: SHARE(e, k) * differentiate(candidate(k), entry))
    if e.func == INDICATOR:
        raise TypeError(f"{e} has no derivative at its border; decide its case first")
    places = [sympy.Dummy(real=True) for _ in e.args]
    given = dict(zip(places, e.args, strict=True))
    rates = {place: e.func(*places).diff(place).xreplace(given) for place in places}
    return sympy.Add(*(rate * differentiate(given[a], entry) for a, rate in rates.items()))


def pull(value: AnyTensor, cotangent: AnyTensor, entry: Expr) -> Expr:
    """Return what the cotangent of a value is at one entry of its input, by differentiation."""
    return sum_over(value.shape, lambda *i: cotangent[i] * differentiate(value[i], entry))


def push(value: Expr, x: AnyTensor, tangent: AnyTensor) -> Expr:
    """Return how fast one entry of a value changes along a tangent of x, by differentiation."""
    return sum_over(x.shape, lambda *k: differentiate(value, x[k]) * tangent[k])


def paired(x: AnyTensor, y: AnyTensor) -> Expr:
    """Return the inner product of two tensors of one shape."""
    return sum_over(x.shape, lambda *i: x[i] * y[i])
