"""A recorded program, planned once: what runs again, what its tape keeps, and what it draws.

Calls that do not feed the result are not run; what they refuse is still refused, and a random one
still takes its counter. A value that no rule has saved is dropped as soon as its last reader has
run; its place on the tape keeps the shape, with NaN, or the least integer, for contents. Calls that
update a buffer are run, whether or not they feed the result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, count
from math import inf, nan
from traceback import clear_frames
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fast.device.buffer import Buffer
from fast.device.counters import counters
from fast.device.named import NamedBuffer, update
from fast.ref import Entry
from fast.runtime.binding import Bindings, Bound
from fast.tape import Tape

Out = Entry | tuple[Entry, ...]
"""What a program returns: an entry of its tape, or several."""


class Argument(NamedTuple):
    """Stands for one of the program's integer inputs, by position among them."""

    position: int


class Contents(NamedTuple):
    """Stands for what a buffer holds when the call is run, and held when it was recorded."""

    buffer: NamedBuffer
    tensor: Tensor


class Recorded(NamedTuple):
    """A call as it was recorded.

    Its inputs are tape entries, arguments, contents of buffers, or integers of its own.
    """

    bound: Bound
    sources: tuple[int | Argument | Contents | Tensor, ...]
    attributes: dict[str, Any]

    def results(self, first: int) -> range:
        """Return the ids of the results, given the first."""
        return range(first, first + self.bound.op.results)


@dataclass
class Log:
    """The entries of a program after its leaves, in order: calls, and constants that it made.

    None stands for each further result of the call before.
    """

    first: int
    entries: list[Recorded | Buffer | None] = field(default_factory=list)
    read: list[int | Argument | Contents | Tensor] = field(default_factory=list)
    """What the call at hand has read so far beside numbers of the tape."""

    def calls(self) -> Iterator[tuple[int, Recorded]]:
        """Iterate over the calls with the ids of their first results."""
        for identity, entry in enumerate(self.entries, self.first):
            if isinstance(entry, Recorded):
                yield identity, entry


class Call(NamedTuple):
    """A call as it is replayed: where in the table it reads and writes, and what it leaves.

    `check` is None where nothing can fail any more, `value` where nothing reads the result.
    `drawn` counts the random calls before this one; `out` are the ids of the results, and `ruled`
    those of them that have the rule. `buffers` are those that it updates, each with its place.
    """

    value: Callable[..., tuple[Any, tuple[Any, ...]]] | None
    check: Callable[..., None] | None
    sources: tuple[int, ...]
    attributes: dict[str, Any]
    out: range
    rule: tuple[Any, tuple[int, ...], tuple[bool, ...], Any] | None
    ruled: tuple[int, ...]
    buffers: tuple[tuple[int, NamedBuffer], ...]
    drawn: int
    done: tuple[int, ...]


class Weight(NamedTuple):
    """What a replay weighs: what its tape keeps, the most at once, and how much comes and goes."""

    kept_bytes: int
    kept_buffers: int
    peak_bytes: int
    passing_buffers: int


class Plan:
    """The calls of one program at fixed shapes; each replay appends its entries to a tape."""

    def __init__(self, log: Log, tape: Tape, out: Out, arguments: Sequence[Tensor]) -> None:
        """Plan what `log` has recorded on `tape`; the program returned the entries `out`."""
        self.out = out
        self.lowered: Any = None
        self.first = log.first
        self.names = tape.names[log.first :]
        self.leaves = _names_of(tape, log.first)
        self.sizes = {k: value.nbytes for k, value in enumerate((*tape.values, *arguments))}
        # They are counted as live for as long as this list holds them.
        self.constants = [entry for entry in log.entries if isinstance(entry, Buffer)]
        self.blanks = [
            entry.tensor if isinstance(entry, Buffer) else blank(value)
            for entry, value in zip(log.entries, tape.values[log.first :], strict=True)
        ]
        self.beside: list[Tensor | NamedBuffer] = []
        self._places: dict[NamedBuffer, int] = {}
        self.calls: list[Call] = []
        self.draws = 0
        needed, last = _readers(log, (out,) if isinstance(out, Entry) else out)
        read_from = len(tape.values) + len(arguments)
        for identity, entry in log.calls():
            sources = self._sources(entry, len(tape.values), read_from)
            call = self._call(identity, entry, sources, tape, last)
            if identity in needed:
                self.calls.append(call)
            elif call.check is not None:
                self.calls.append(call._replace(value=None))
            self.draws += entry.bound.op.random
        run = [call for call in self.calls if call.value is not None]
        made = {k for call in run for k in call.out}
        others = [value for k, value in enumerate(tape.values) if k not in made]
        read = [source for _, entry in log.calls() for source in entry.sources]
        others += [source.tensor for source in read if isinstance(source, Contents)]
        others += [source for source in read if isinstance(source, Tensor)]
        self._weight = _weigh(run, tape, last, (*others, *arguments))

    def results(self, tape: Tape) -> Any:
        """Return refs of another tape to the entries that the program returned, as it did."""
        if isinstance(self.out, Entry):
            return type(self.out)(tape, self.out.id)
        return tuple(type(entry)(tape, entry.id) for entry in self.out)

    @property
    def moved(self) -> dict[int, NamedBuffer]:
        """The buffers that calls update, by their places in the table of a replay."""
        return {place: buffer for call in self.calls for place, buffer in call.buffers}

    def read_beside(self) -> list[Tensor]:
        """Return what calls read beside the tape and the arguments, as it is now."""
        return [b.contents if isinstance(b, NamedBuffer) else b for b in self.beside]

    def replay(self, tape: Tape, arguments: Sequence[Tensor], counter: Bindings) -> None:
        """Run the calls on a tape that holds the leaves, and append what the recording appended.

        If one of them fails, the tape stays as it was, and the random counter is where the program
        itself would have left it.
        """
        count = len(self.blanks)
        table = [*tape.values, *self.blanks, *arguments, *self.read_beside()]
        rules: list[tuple[Any, ...] | None] = [None] * count
        start = counter.next_call
        try:
            self.run(table, rules, counter)
        except BaseException as error:
            # The traceback keeps this frame and the ops' frames, but must not keep values.
            table.clear()
            rules.clear()
            clear_frames(error.__traceback__)
            raise
        counter.next_call = start + self.draws
        weight = self._weight
        counters.passed(tape.untold + weight.peak_bytes, weight.passing_buffers)
        tape.values += table[self.first : self.first + count]
        tape.rules += rules
        tape.names += self.names
        tape.bytes += weight.kept_bytes
        tape.extra += weight.kept_buffers - count

    def run(
        self,
        table: list[Tensor],
        rules: list[tuple[Any, ...] | None],
        counter: Bindings,
        checked: bool = True,
    ) -> None:
        """Run the calls in order, by default with their checks; what is done with goes at once."""
        blanks, first, start = self.blanks, self.first, counter.next_call
        for value, check, sources, attributes, out, rule, ruled, held, drawn, done in self.calls:
            tensors = [table[k] for k in sources]
            counter.next_call = start + drawn
            if check is not None and checked:
                check(*tensors, **attributes)
            if value is None:
                continue
            result, saved = value(*tensors, **attributes)
            if type(result) is not tuple:
                table[out.start] = result
            else:
                table[out.start : out.stop] = result[: len(out)]
                if checked:
                    update([buffer for _, buffer in held], result[len(out) :])
                    for place, buffer in held:
                        table[place] = buffer.contents
                else:
                    # In a trace nothing is replaced: the new contents are results.
                    for (place, _), made in zip(held, result[len(out) :], strict=True):
                        table[place] = table[place] if made is None else made
            if rule is not None:
                vjp, parents, needs, form = rule
                for k in ruled:
                    rules[k - first] = (vjp, saved, parents, needs, form)
            # What nothing else holds must not live through the next call.
            saved = result = ()
            for k in done:
                table[k] = blanks[k - first]

    def _sources(self, entry: Recorded, entries: int, read_from: int) -> tuple[int, ...]:
        """Return where in the table of a replay a call's inputs are."""
        found = []
        for source in entry.sources:
            if isinstance(source, Argument):
                found.append(entries + source.position)
            elif isinstance(source, Contents):
                if source.buffer not in self._places:
                    self._places[source.buffer] = read_from + len(self.beside)
                    self.beside.append(source.buffer)
                found.append(self._places[source.buffer])
            elif isinstance(source, Tensor):
                found.append(read_from + len(self.beside))
                self.beside.append(source)
            else:
                found.append(source)
        return tuple(found)

    def _call(
        self, identity: int, entry: Recorded, sources: tuple[int, ...], tape: Tape,
        last: dict[int, float],
    ) -> Call:  # fmt: skip
        bound, out = entry.bound, entry.results(identity)
        ruled = tuple(k for k in out if tape.rules[k] is not None)
        rule = tape.rules[ruled[0]] if ruled else None
        # Shapes are those of the recording. What labels hold and where the counter stands is not.
        varies = bound.op.random or any(
            isinstance(s, Argument) or (isinstance(s, int) and _holds_integers(tape.values[s]))
            for s in entry.sources
        )
        done = sorted({k for k in (*sources, *out) if last.get(k) == identity})
        places = {place: buffer for buffer, place in self._places.items()}
        held = tuple((sources[k], places[sources[k]]) for k in bound.op.buffers)
        return Call(
            bound.value,
            bound.check if varies else None,
            sources,
            entry.attributes,
            out,
            None if rule is None else (rule[0], *rule[2:]),
            ruled,
            held,
            self.draws,
            tuple(done),
        )


def _names_of(tape: Tape, leaves: int) -> list[str]:
    """Name the leaves: parameters by their names, and inputs by their places."""
    used = {leaf: parameter.name for leaf, (parameter, _) in tape.uses.items()}
    data = count()
    return [used.get(k) or f"input {next(data)}" for k in range(leaves)]


def _readers(log: Log, out: Sequence[Entry]) -> tuple[set[int], dict[int, float]]:
    """Return the entries that feed those of `out`, and the last reader of each call's results.

    Of a call with several results, one of which is read, all are made, and the others go at once.
    A call that updates a buffer feeds later runs, if not this one.
    """
    needed: set[int] = {entry.id for entry in out}
    last: dict[int, float] = dict.fromkeys(needed, inf)
    needed.update(identity for identity, entry in log.calls() if entry.bound.op.buffers)
    results = {k for identity, entry in log.calls() for k in entry.results(identity)}
    for identity, entry in reversed([*log.calls()]):
        own = entry.results(identity)
        if not needed.isdisjoint(own):
            needed.update(own)
            for result in own:
                last.setdefault(result, identity)
            read = {source for source in entry.sources if isinstance(source, int)}
            needed |= read
            for source in read.intersection(results):
                last.setdefault(source, identity)
    return needed, last


def blank(value: Tensor) -> Tensor:
    """Return a tensor of a value's shape that takes the memory of one number."""
    least = torch.iinfo(value.dtype).min if _holds_integers(value) else nan
    return torch.full((), least, dtype=value.dtype, device=value.device).expand(value.shape)


def _holds_integers(value: Tensor) -> bool:
    return not value.is_floating_point()


def _weigh(
    calls: Sequence[Call], tape: Tape, last: Mapping[int, float], foreign: Iterable[Tensor]
) -> Weight:
    """Weigh the storages that calls make; what was there before them is not theirs."""
    others = {_storage(tensor) for tensor in foreign}
    born: dict[int, int] = {}
    ends: dict[int, float] = {}
    sizes: dict[int, int] = {}
    for call in calls:
        rule = tape.rules[call.ruled[0]] if call.ruled else None
        saved = [item for item in rule[1] if isinstance(item, Tensor)] if rule else []
        made = [(tape.values[k], last[k]) for k in call.out]
        for tensor, end in (*made, *((item, inf) for item in saved)):
            key = _storage(tensor)
            if key not in others:
                born.setdefault(key, call.out.start)
                ends[key] = max(ends.get(key, 0), end)
                sizes[key] = tensor.untyped_storage().nbytes()
    change: Counter[float] = Counter()
    for key, size in sizes.items():
        change[born[key]] += size
        change[ends[key] + 0.5] -= size
    moments = sorted(moment for moment in change if moment != inf)
    live = [*accumulate((change[moment] for moment in moments), initial=0)]
    kept = sum(end == inf for end in ends.values())
    return Weight(live[-1], kept, max(live), len(ends) - kept)


def _storage(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
