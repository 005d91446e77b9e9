"""One rule at work on one answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from llm_proxy.actions import Abort, Action, Begin, Send, SendRaw, Wait
from llm_proxy.exchange import Head
from llm_proxy.faults.fault_record import Injected
from llm_proxy.faults.kind import Bend, Bending, CannotInject, Met, Moment, Strike, Struck
from llm_proxy.faults.location import AtTime, Place
from llm_proxy.faults.rewriting import applicability, event_types
from llm_proxy.faults.rewriting.buffered_body import Body, dues_of
from llm_proxy.faults.rewriting.locator import Seeking, fixed
from llm_proxy.faults.rule import Rule
from llm_proxy.framing import by_bytes

_STRICTLY: Final = 0.001
"""ms: what is due at the moment of a fault comes before it."""


class Rewriter:
    """What one rule makes of the actions of an answer.

    `feed` it the actions, `close` it at the clean end; after `over` it wants no more.
    """

    def __init__(self, rule: Rule, work: Strike | Bend, met: Met) -> None:
        self._rule = rule
        self._work = work
        self._met = met
        self._total: int | None = None
        self._at = 0.0
        self._shift = 0.0
        self._head: Head | None = None
        self._codec = ""
        self._looked = False
        """Whether the first bytes were looked at, for labels lie."""
        self._senseless = ""
        """Why the rule has no meaning in a body of the framing that the label says."""
        self._body = Body("whole")
        self._seeking: Seeking | None = None
        self._taking = False
        self._out: list[Action] = []
        """What was taken out, as it came."""
        self._bending: Bending | None = None
        self.over = False
        """Whether the answer has ended by it."""
        self.injected: Injected | None = None
        """What became of it; None as long as that is open."""

    def measure(self, total: int) -> None:
        """The body has so many bytes: all of it is there."""
        self._total = total

    @property
    def resizes(self) -> bool:
        """Whether a body may have another length by it than was declared, and be right."""
        return self._work.resizes

    @property
    def is_quiet(self) -> bool:
        """Whether nothing goes wrong by it."""
        return isinstance(self._work, Bend) and self._work.quiet

    @property
    def alarm(self) -> float | None:
        """The moment, in ms, at which it strikes whether anything comes or not."""
        place = self._rule.place
        waits = not (self.injected or self._taking or self.over or self._senseless)
        return place.ms if waits and isinstance(place, AtTime) else None

    def tick(self, ms: float) -> list[Action]:
        """It is that late: strike, if that is the moment."""
        if self.alarm is None or ms < self.alarm:
            return []
        self._at = self.alarm + self._shift
        return self._reached()

    def feed(self, action: Action) -> list[Action]:
        """What goes out for this action."""
        if self.over:
            return []
        if self.injected is not None:
            return self._behind(action)
        match action:
            case Wait(due):
                return [*self.tick(due - _STRICTLY), *self._wait(action)]
            case Begin(head):
                return self._begin(action, head)
            case Abort():
                return [*self._all("the answer broke off before it"), action]
            case Send(data) if not self._looked:
                return [*self._look(data), *self.feed(action)]
            case Send() | SendRaw():
                self._body.feed(action)
                return self._advance()

    def close(self) -> list[Action]:
        """What goes out before the clean end."""
        if self._bending is not None and not self.over:
            return list(self._bending.close())
        if self.over or self.injected is not None:
            return []
        self._body.close()
        gone = self._advance()
        if self._taking:
            gone += self._struck(len(self._body.ends))
        if self.injected is None:
            gone += self._all(self._seeking.missed() if self._seeking else "there was no answer")
        return gone

    def abandon(self, why: str) -> None:
        """It has not struck after all, whatever it had done by now."""
        self._skip(why)

    def settle(self) -> None:
        """Nothing more comes, and it was no clean end."""
        if self.injected is None:
            self._skip("the answer was over before it")

    def _wait(self, action: Wait) -> list[Action]:
        if self.over or self.injected is not None:
            return self.feed(action)
        if self._seeking is None:
            self._at = action.due
            return [action]
        self._body.feed(action)
        return []

    def _begin(self, action: Begin, head: Head) -> list[Action]:
        work = self._work
        if isinstance(work, Strike) and work.before_head and self._rule.place is None:
            gone = self._struck(0)
            return gone if self.over else [*gone, action]
        self._head = head
        self._codec = applicability.codec(self._met.asked, head)
        return self._aim(action, head)

    def _look(self, start: bytes) -> list[Action]:
        """Aim anew where the first bytes are of another framing than the label says."""
        gone: list[Action] = []
        label, self._codec = self._codec, by_bytes(self._codec, start)
        self._looked = True
        if self._head is not None and self._codec != label:
            self._senseless = ""
            gone = [*self._body.everything(), *self._aim(None, self._head)]
        if self._senseless:
            self._skip(self._senseless)
        return gone

    def _aim(self, begin: Begin | None, head: Head) -> list[Action]:
        """Look for the place in a body of the framing that is known by now."""
        work = self._work
        total = self._total if self._total is not None else head.length
        ahead: list[Action] = [] if begin is None else [begin]
        try:
            applicability.check(self._rule.kind, work, head, self._codec)
            if isinstance(work, Bend) and self._rule.place is None:
                return self._bend(begin)
            takes, usual = (work.takes, work.usual) if isinstance(work, Strike) else (0, None)
            if isinstance(work, Strike) and work.check is not None:
                work.check(self._moment(0))
            place: Place = fixed(self._rule.place or usual, self._codec, total, takes)
        except CannotInject as why:
            self._senseless = str(why)
            return ahead
        self._body = Body(self._codec)
        self._seeking = Seeking(place, self._body, self._types)
        return [*ahead, *self._advance()]

    def _types(self, message: bytes) -> frozenset[str]:
        assert self._head is not None  # noqa: S101 # there is no message before the head
        return event_types.types(self._met.asked.dialect, self._head, self._codec, message)

    def _advance(self) -> list[Action]:
        """Let go of what lies before the place, and strike where that is reached."""
        if self._seeking is None:
            return self._let_go(self._body.everything())
        if self._taking:
            return self._take()
        spot = self._seeking.spot()
        if not spot.found and spot.free == self._body.fed:
            return self._let_go(self._body.everything())
        gone = self._let_go(self._body.release(spot.free))
        return gone + self._reached() if spot.found else gone

    def _let_go(self, actions: list[Action]) -> list[Action]:
        for action in actions:
            if isinstance(action, Wait):
                self._at = action.due
        return actions

    def _reached(self) -> list[Action]:
        work = self._work
        if isinstance(work, Bend):
            return self._bend(None)
        if work.takes:
            self._taking = True
            return self._take()
        return self._struck(0)

    def _take(self) -> list[Action]:
        """Strike, if all that the fault takes has come."""
        takes = self._work.takes if isinstance(self._work, Strike) else 0
        return self._struck(takes) if self._there() >= takes else []

    def _there(self) -> int:
        """How many messages have come behind the place."""
        return len(self._body.messages) - self._body.whole()

    def _moment(self, takes: int) -> Moment:
        body = self._body
        whole, size, begun = body.whole(), body.released, body.begun()
        taken = tuple(body.messages[whole : whole + takes])
        before = tuple(body.messages[:whole])
        ends = body.ends[whole : whole + len(taken)]
        self._out = body.release(ends[-1]) if ends else []
        dues = dues_of(self._out, [end - size for end in ends], self._at)
        self._let_go(self._out)
        return Moment(
            self._met, self._at, self._head, self._codec, before, begun, taken, dues, size
        )

    def _struck(self, takes: int) -> list[Action]:
        work = self._work
        assert isinstance(work, Strike)  # noqa: S101 # a bend does not strike
        if work.takes and not self._there():
            is_empty = not self._body.fed
            return self._all("the body is empty" if is_empty else "there was no message behind it")
        if work.cuts and self._head is not None and self._body.released == self._total:
            return self._all("there was nothing behind it")
        before = self._at
        moment = self._moment(takes)
        try:
            struck = work.strike(moment)
        except CannotInject as why:
            self._skip(str(why))
            return [*self._out, *self._body.everything()]
        self._note(moment)
        self._taking = False
        is_late = moment.at > before and not struck.timed
        late: list[Action] = [Wait(moment.at)] if is_late else []
        return [*late, *self._carried_out(struck, moment)]

    def _carried_out(self, struck: Struck, moment: Moment) -> list[Action]:
        gone = list(struck.actions)
        if struck.over:
            self.over = True
            return gone
        if struck.delay > 0:
            self._shift += struck.delay
            gone.append(Wait(moment.at + struck.delay))
        return gone + [it for held in self._body.everything() for it in self._behind(held)]

    def _bend(self, begin: Begin | None) -> list[Action]:
        work = self._work
        assert isinstance(work, Bend)  # noqa: S101 # a strike does not bend
        moment = self._moment(0)
        try:
            self._bending = work.begin(moment)
        except CannotInject as why:
            self._skip(str(why))
            return [begin] if begin is not None else self._body.everything()
        self._note(moment)
        ahead = [begin] if begin is not None else self._body.everything()
        return [it for action in ahead for it in self._behind(action)]

    def _behind(self, action: Action) -> list[Action]:
        """What becomes of an action once the rule has struck."""
        if self._bending is not None:
            return list(self._bending.feed(action))
        if isinstance(action, Wait) and self._shift:
            return [replace(action, due=action.due + self._shift)]
        return [action]

    def _all(self, why: str) -> list[Action]:
        self._skip(why)
        return self._body.everything()

    def _skip(self, why: str) -> None:
        kind, why = self._rule.kind, self._senseless or why
        self._taking = False
        self.injected = Injected(
            self._rule.text, kind.name, self._work.effect or kind.effect, skipped=why
        )

    def _note(self, moment: Moment) -> None:
        kind = self._rule.kind
        placed = moment.head is not None
        self.injected = Injected(
            self._rule.text,
            kind.name,
            self._work.effect or kind.effect,
            round(moment.dues[0] if moment.dues else moment.at, 3),
            len(moment.before) if placed else None,
            moment.size if placed else None,
        )
