"""Texts that match a regular expression, and whether a text does.

Expressions come with requests.  Python's own would search some of them for years, so ours are
searched by following all ways at once, a budget at hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, islice
from typing import Final

from llm_proxy.chance import seeded_below
from llm_proxy.errors import printable
from llm_proxy.scenario.generation.json_schema.budget import SchemaBudget
from llm_proxy.scenario.generation.json_schema.regex_parser import (
    Alternation,
    AnchoredAlternative,
    CharacterClass,
    Concatenation,
    Node,
    Repetition,
    parse_expression,
)

_LONGEST: Final = 10_000
"""Characters of a text."""
_USUAL: Final = 3
"""How many more than it must a repeat without an end has, where any number will do."""
_TRIES: Final = 40
"""Such numbers that are tried one after the other, where a text must be longer."""


def matching(pattern: str, least: int, most: int | None, seed: str, budget: SchemaBudget) -> str:
    """A text of `least` to `most` characters in which the expression is found.

    Raises `ValueError`, with the reason in a few words, where none is known, and `TooMuch`.
    """
    wholes = [
        anchored_alternative
        for anchored_alternative in parse_expression(pattern, budget)
        if _shortest(anchored_alternative.body) <= _LONGEST
    ]
    first = seeded_below(len(wholes) or 1, seed, "alternative")
    for extra in _extras(least):
        for whole in (*wholes[first:], *wholes[:first]):
            content = _told(whole.body, extra, seed, budget)
            text = _padded(whole, content, least)
            if len(content) <= _LONGEST and least <= len(text) <= (
                len(text) if most is None else most
            ):
                return text
    raise ValueError(f"no text of that length is known to match {printable(pattern, 100)}")


def found(wholes: Sequence[AnchoredAlternative], text: str, budget: SchemaBudget) -> bool:
    """Whether an expression is found in a text; `$` is its end, and no line's."""
    everywhere = frozenset(range(len(text) + 1))
    for whole in wholes:
        budget.spend(1 + len(text) // 10)
        starts = frozenset((0,)) if whole.at_start else everywhere
        ends = _ends(whole.body, text, starts, budget)
        if len(text) in ends if whole.at_end else ends:
            return True
    return False


def _ends(node: Node, text: str, starts: frozenset[int], budget: SchemaBudget) -> frozenset[int]:
    budget.spend(1 + len(starts) // 10)
    if not starts:
        return starts
    match node:
        case CharacterClass(spans=spans):
            budget.spend(1 + len(starts) * (2 + len(spans)) // 4)
            codes = ((at, ord(text[at])) for at in starts if at < len(text))
            return frozenset(
                at + 1 for at, code in codes if any(low <= code <= high for low, high in spans)
            )
        case Concatenation(items=items):
            for item in items:
                starts = _ends(item, text, starts, budget)
            return starts
        case Alternation(options=options):
            return frozenset().union(*(_ends(option, text, starts, budget) for option in options))
        case Repetition():
            return _repeated(node, text, starts, budget)


def _repeated(
    node: Repetition, text: str, starts: frozenset[int], budget: SchemaBudget
) -> frozenset[int]:
    """Where a repeat can end.  It always does: one more either leads nowhere, or nowhere new."""
    here, ends = starts, set[int]()
    for times in count():
        if times >= node.least:
            ends |= here
        further = _ends(node.inner, text, here, budget) if times != node.most else frozenset()
        if further == here:
            return frozenset(ends | here)
        if not further or (times >= node.least and further <= ends):
            return frozenset(ends)
        here = further
    raise AssertionError("counting has no end")


def _shortest(node: Node) -> int:
    """The characters that a node has at least."""
    match node:
        case CharacterClass():
            return 1
        case Concatenation(items=items):
            return sum(map(_shortest, items))
        case Alternation(options=options):
            return min(map(_shortest, options))
        case Repetition(inner=inner, least=least):
            return least * _shortest(inner)


def _extras(least: int) -> Iterator[int]:
    """How many times more than they must repeats may go on, the usual first."""
    yield from (_USUAL, 2, 1, 0)
    yield from range(_USUAL + 1, min(least, _TRIES) + 1)
    if _TRIES < least <= _LONGEST:
        yield from (-(-least // together) for together in range(_TRIES, 0, -1))


def _padded(whole: AnchoredAlternative, text: str, least: int) -> str:
    """The text with letters more, where the expression does not say how it begins or ends."""
    more = "x" * (least - len(text))
    if whole.at_end:
        return text if whole.at_start else more + text
    return text + more


def _told(node: Node, extra: int, seed: str, budget: SchemaBudget) -> str:
    """A text that the node matches; cut where it grows too long."""
    ordinals = map(str, count())
    return "".join(islice(_characters(node, extra, seed, ordinals, budget), _LONGEST + 1))


def _characters(
    node: Node, extra: int, seed: str, ordinals: Iterator[str], budget: SchemaBudget
) -> Iterator[str]:
    """A text that the node matches; repeats that may go on do so `extra` times."""
    budget.spend(2)
    match node:
        case CharacterClass(among=among):
            yield among[seeded_below(len(among), seed, next(ordinals))]
        case Concatenation(items=items):
            for item in items:
                yield from _characters(item, extra, seed, ordinals, budget)
        case Alternation(options=options):
            chosen = options[seeded_below(len(options), seed, next(ordinals))]
            yield from _characters(chosen, extra, seed, ordinals, budget)
        case Repetition(inner=inner, least=least, most=most):
            times = least + extra if most is None else min(least + extra, most)
            for _ in range(times):
                yield from _characters(inner, extra, seed, ordinals, budget)
