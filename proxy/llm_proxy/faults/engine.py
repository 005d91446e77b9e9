"""Which rules strike a request: counted, timed, and rolled, the same in each run.

A roll of chance is a hash of the seed, the rule, the session, the key, and how often this request
has been asked: requests that come at once, or in another order, change none of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from llm_proxy.chance import roll
from llm_proxy.dialects.decoded_request import Asked
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.faults.kind import Bend, Instead, Met, Meter, Metered, Working
from llm_proxy.faults.request_faults import Injection, Meant
from llm_proxy.faults.rule import Audience, Occasion, Rule, ScriptedRule
from llm_proxy.routing import Call
from llm_proxy.take_numbers import Ordinals

_LONGEST_SILENCE: Final = 660_000.0


@dataclass(frozen=True, slots=True)
class Conditions:
    """What holds for all rules of a run."""

    seed: int = 0
    silence: float = _LONGEST_SILENCE
    """The longest that anything is silent, in ms."""
    created: Callable[[], int] = int
    """The time that made answers name, in s since 1970."""


@dataclass(slots=True)
class Standing:
    """A rule that holds, and what has come of it."""

    rule: Rule
    since: float
    """When it was given, in ms since the run began."""
    seen: int = 0
    """Requests that it is meant for."""
    struck: int = 0
    """Requests that it struck."""
    counts: Counter[str] = field(default_factory=Counter)
    """Requests that it is meant for, by what `per` counts."""
    meter: Meter | None = None
    """The account that its fault keeps, where it keeps one."""

    def miss(self) -> None:
        """A fault that was to strike came to nothing."""
        self.struck -= 1

    def told(self) -> dict[str, str | int]:
        """For people and programs."""
        return {"rule": self.rule.text, "seen": self.seen, "struck": self.struck}


class Injector:
    """The rules of a run, as they stand."""

    def __init__(self, rules: Iterable[Rule] = (), conditions: Conditions | None = None) -> None:
        self._conditions = conditions or Conditions()
        self._given = [Standing(rule, 0.0) for rule in rules]
        self._added: list[Standing] = []
        self._scripted: dict[tuple[str, str], Standing] = {}
        self._ordinals = Ordinals()

    @property
    def given(self) -> list[Standing]:
        """The rules that the run was started with."""
        return list(self._given)

    @property
    def added(self) -> list[Standing]:
        """The rules that were given while it runs."""
        return list(self._added)

    @property
    def scripted(self) -> list[Standing]:
        """The rules of scenarios that have been met."""
        return list(self._scripted.values())

    @property
    def standing(self) -> list[Standing]:
        """All of them."""
        return [*self._given, *self._added, *self._scripted.values()]

    def put(self, rules: Iterable[Rule], now: float) -> None:
        """Have these hold from now on, in place of those that were given while it runs.

        `now` is in ms since the run began.
        """
        self._added = [Standing(rule, now) for rule in rules]

    def reset(self, session: str) -> None:
        """Count the requests of this session from 1 again."""
        self._ordinals.reset(session)
        for standing in self.standing:
            if standing.meter is not None:
                standing.meter.forget(session)
            for scope in [it for it in standing.counts if it.split("\0")[:1] == [session]]:
                del standing.counts[scope]

    @property
    def keeps_account(self) -> bool:
        """Whether any rule keeps account of what is asked."""
        return any(it.rule.kind.scope == "rule" for it in (*self._given, *self._added))

    def wants(self, call: Call) -> bool:
        """Whether any rule may strike this request at all."""
        return bool(self._given or self._added or call.faults)

    def meet(self, call: Call, own: Sequence[Rule], now: float) -> Injection:
        """What strikes this request; `own` are the rules that it brings along.

        `now` is in ms since the run began.
        """
        ordinal = self._ordinals.next(call.session, call.key)
        rules = [*self._given, *self._added, *(Standing(rule, now) for rule in own)]
        injection = Injection(call, ordinal)
        injection.mean(self._meant(rules, call, ordinal, now))
        return injection

    def script(
        self,
        call: Call,
        injection: Injection | None,
        rules: Sequence[ScriptedRule],
        now: float,
    ) -> Injection:
        """What strikes this request with the rules of the scenario that answers it.

        Their windows begin with the run.
        """
        if injection is None:
            injection = Injection(call, self._ordinals.next(call.session, call.key))
        standing = [
            self._scripted.setdefault((it.where, it.rule.text), Standing(it.rule, 0.0))
            for it in rules
        ]
        injection.mean(self._meant(standing, call, injection.ordinal, now))
        return injection

    def _meant(
        self, rules: Sequence[Standing], call: Call, ordinal: int, now: float
    ) -> list[Meant]:
        """The rules that strike, in their order."""
        meant: list[Meant] = []
        who = _names(call)
        for number, standing in enumerate(rules):
            if not standing.rule.audience.has(who):
                continue
            if not self._strikes(standing, call, ordinal, now):
                continue
            if standing.rule.kind.scope == "rule" and any(map(_answers, meant)):
                continue  # another has answered: that is none of its account
            met = self._met(standing.rule, call, ordinal, number)
            work = _work(standing, met, call.session, now)
            if work is None:
                continue
            standing.struck += not (isinstance(work, Bend) and work.quiet)
            meant.append(Meant(standing.rule, met, work, standing.miss))
        return meant

    def _strikes(self, standing: Standing, call: Call, ordinal: int, now: float) -> bool:
        occasion = standing.rule.occasion
        if occasion.window is not None:
            begin, end = (standing.since + it for it in occasion.window)
            if not begin <= now < end:
                return False
        standing.seen += 1
        if not self._counted(standing, call, occasion):
            return False
        if occasion.times is not None and standing.struck >= occasion.times:
            return False
        rolled = self._roll(standing.rule, call, ordinal, "strikes")
        return occasion.probability is None or rolled < occasion.probability

    @staticmethod
    def _counted(standing: Standing, call: Call, occasion: Occasion) -> bool:
        scope = {
            "run": "",
            "session": call.session,
            "request": f"{call.session}\0{call.key}",
        }[occasion.per]
        standing.counts[scope] += 1
        count = standing.counts[scope]
        if occasion.nth is not None and count != occasion.nth:
            return False
        if occasion.first is not None and count > occasion.first:
            return False
        return occasion.every is None or count % occasion.every == 0

    def _met(self, rule: Rule, call: Call, ordinal: int, number: int) -> Met:
        conditions = self._conditions
        seed = "\0".join((str(conditions.seed), call.session, call.key, str(ordinal), "fault"))
        delivery = Delivery(f"{seed}\0{number}", conditions.created(), provider=call.provider)
        asked = Asked(call.dialect, call.plain, delivery)
        return Met(
            asked,
            lambda what: self._roll(rule, call, ordinal, what),
            conditions.silence,
            lambda: call.conversation,
        )

    def _roll(self, rule: Rule, call: Call, ordinal: int, what: str) -> float:
        return roll(self._conditions.seed, rule.text, call.session, call.key, ordinal, what)


def _answers(it: Meant) -> bool:
    """Whether it answers in place of the provider."""
    return isinstance(it.work, Instead)


def _work(standing: Standing, met: Met, session: str, now: float) -> Working | None:
    """How a rule's fault works on this request; None where its account says that it does not."""
    rule = standing.rule
    work = rule.fault.work(rule.place)
    if not isinstance(work, Metered):
        return work
    standing.meter = standing.meter or work.begin()
    return standing.meter.admit(met, session, now - standing.since)


def _names(call: Call) -> Audience:
    """What audiences are told by."""
    return Audience(
        call.dialect.name,
        call.provider,
        call.model,
        call.plain.path,
        call.session,
        call.dialect.streams(call.plain),
    )
