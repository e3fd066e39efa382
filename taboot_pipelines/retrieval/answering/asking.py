"""What a question asks: the words that a statement must be about, and the kind of value it must carry.

Read from the question alone, by the words that begin it and the noun that it asks for; a question of a few
words without a verb ("gitea ssh port") asks for what its noun names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum

from taboot_pipelines.retrieval.answering import words
from taboot_pipelines.shards.analyzer import STOP_WORDS, analyze

#: Terms of a question that are looked at; the rest of a longer one is taken to repeat them.
MAX_TERMS = 32
_MAX_READ = 4000
_MIN_WEIGHT, _MAX_WEIGHT = 0.6, 6.0
#: What words say that belong to asking more than to what is asked.
_FAINT = 0.3
#: A name that stands in many chunks ("web", "app") is a word like others.
_MIN_NAME = 2.5
_DENIAL_WEIGHT = 3.0


class Value(Enum):
    """The kind of value that is asked for."""

    MOMENT = "a date or time"
    DATE = "a date"
    DURATION = "a duration"
    FREQUENCY = "how often"
    NUMBER = "a number"
    PORT = "a port"
    VERSION = "a version"
    ADDRESS = "an address"
    PLACE = "a place"
    PERSON = "a person"
    SECRET = "a secret"
    STEPS = "the way to do it"
    REASON = "a reason"
    YES_NO = "yes or no"
    MEANING = "what it is"
    COMMAND = "a command"


_UNIT = (
    r"(?:milli|micro)?seconds?|minutes?|mins?|hours?|hrs?|days?|weeks?|months?|years?|nights?|quarters?|ms|[smhdw]\b"
)
_COUNT = (
    r"\d+(?:[.,]\d+)?|half an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty"
    r"|forty|sixty|ninety|an?"
)
_MONTH = (
    r"jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?"
)
_WEEKDAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?"
_DATE = rf"\b\d{{4}}-\d\d(?:-\d\d)?\b|\b(?:\d{{1,2}}\.? (?:{_MONTH})|(?:{_MONTH}) \d{{1,4}})\b|\b(?:19|20)\d\d\b"
_TIME = r"\b\d{1,2}:\d\d\b|\b\d{1,2} ?[ap]\.?m\b|\bmidnight\b|\bnoon\b"
_CRON = r"(?:^|[\s\"'=])(?:[\d*/,-]+\s+){4,5}[\d*/,-]+"
_EVERY = rf"\b(?:every|each|once|twice|hourly|daily|nightly|weekly|monthly|quarterly|yearly|per)\b|@every|{_CRON}"
_WHEN = r"\b(?:when|whenever|after|before|as soon as|until|if|on)\b"
_ADDRESS = r"\b\d{1,3}(?:\.\d{1,3}){3}\b|\b[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}\b|\b[\w-]+(?:\.[\w-]+)+\b|https?://"

#: What a statement must hold, without the words of the question, to carry a kind of value.
_CARRIES: dict[Value, re.Pattern[str]] = {
    kind: re.compile(pattern, re.IGNORECASE)
    for kind, pattern in {
        Value.MOMENT: rf"{_DATE}|{_TIME}|{_EVERY}|\b{_WEEKDAY}\b|\b(?:{_COUNT})\s*(?:{_UNIT})\b|{_WHEN}"
        rf"|\b(?:night|morning|evening|afternoon|at once|immediately)\b",
        Value.DATE: rf"{_DATE}|\b{_WEEKDAY}\b",
        Value.DURATION: rf"\b(?:{_COUNT})[\s-]*(?:{_UNIT})|\b\d+ (?:daily|weekly|monthly|hourly)\b|\bforever\b"
        rf"|\b(?:daily|weekly|monthly)[ =]\d+",
        Value.FREQUENCY: rf"{_EVERY}|\b(?:{_COUNT})\s*(?:{_UNIT})\b|\b{_WEEKDAY}\b|\b\d+ times\b",
        Value.NUMBER: rf"\d|\b(?:{_COUNT.removesuffix('|an?')})\b|\b(?:no|none|both|single)\b",
        Value.PORT: r"(?<![\d.])\d{2,5}(?![\d.]*\.\d)\b",
        Value.VERSION: r"\bv?\d+(?:\.\d+)+|:\w*\d[\w.-]*|\blatest\b|\bv?\d+\b",
        Value.ADDRESS: _ADDRESS,
        Value.PLACE: rf"[\w.~-]*/[\w./-]+|\b(?:in|on|at|under|below|inside|behind|from|to|into)\s+\S|{_ADDRESS}",
        Value.PERSON: r"(?-i:\b[A-Z][a-z]+(?: [A-Z][a-z]+)*\b)|\b(?:root|admin\w*|owner|user|everyone|nobody|anyone"
        r"|whoever|who|people|member|[a-z]+er|abc|we|you)\b",
        Value.SECRET: r"[:=]\s*\S|`[^`]+`|\b(?:is|in|under|set to|default)\b",
        Value.COMMAND: r"`[^`]+`|^\W*(?:sudo|docker|alias|systemctl|kubectl|apt|git|curl|ssh)\s|\s-{1,2}\w",
    }.items()
}

#: A setting that is filled in elsewhere, or masked, does not say the secret.
_PLACEHOLDER = re.compile(r"\$\{?\w|\*{3,}|[=:]\s*[\"'`]*\s*(?:;|$)|<[\w -]+>")

_NOUNS: tuple[tuple[re.Pattern[str], Value], ...] = tuple(
    (re.compile(pattern), kind)
    for pattern, kind in (
        (r"\bports?\b", Value.PORT),
        (r"\b(?:versions?|releases?|tag)\b", Value.VERSION),
        (r"\b(?:ip|ips|address(?:es)?|subnet|gateway|url|uri|domain|hostname|host name|subdomains?)\b", Value.ADDRESS),
        (r"\b(?:date|year|month)\b", Value.DATE),
        (r"\b(?:time|day|weekday|hour)\b", Value.MOMENT),
        (r"\b(?:path|directory|folder|location|mount point|place)\b", Value.PLACE),
        (r"\b(?:password|passphrase|secret|token|credentials?)\b", Value.SECRET),
        (r"\b(?:number|count|amount|size|limit|percentage|share|threshold|quota|capacity)\b", Value.NUMBER),
        (r"\b(?:interval|frequency)\b", Value.FREQUENCY),
        (r"\b(?:timeout|duration|retention|uptime|downtime|expiry|ttl)\b", Value.DURATION),
        (r"\b(?:command|alias)\b", Value.COMMAND),
        (r"\b(?:person|author|owner|maintainer)\b", Value.PERSON),
        (r"\b(?:reason|cause)\b", Value.REASON),
    )
)  # fmt: skip

_BEGIN = r"(?:^|[,;:?.] ?|\b(?:and|or|so|but|exactly|then) )"
_OPENINGS: tuple[tuple[re.Pattern[str], Value | None], ...] = tuple(
    (re.compile(pattern), kind)
    for pattern, kind in (
        (r"\bhow long\b|\bfor how (?:long|many (?:days|hours|minutes|weeks|months|years))\b", Value.DURATION),
        (r"\bhow (?:often|frequently)\b", Value.FREQUENCY),
        (r"\bhow (?:many|much|big|large|high|old|far|fast|few)\b", Value.NUMBER),
        (r"\bwhat(?:'s| is| are)? (?:the )?(?:steps?|procedure|way|process)\b", Value.STEPS),
        (r"\bhow (?:do|does|can|could|should|would|to|must|shall|may)\b", Value.STEPS),
        (r"\bhow(?:'s| is| are| was| were)\b", None),
        (r"\bwhy\b|\bhow come\b|\bwhat for\b|\bgood for\b", Value.REASON),
        (r"\bwho\b|\bwhom\b|\bwhose\b", Value.PERSON),
        (r"\b(?:in|since) (?:which|what) year\b|\b(?:on )?(?:which|what) (?:date|day)\b", Value.DATE),
        (r"\b(?:at )?(?:what|which) time\b|\b(?:since|until) when\b", Value.MOMENT),
        (rf"{_BEGIN}when\b", Value.MOMENT),
        (r"^where\b|\bwhere (?:is|are|do|does|can|was|were|to)\b", Value.PLACE),
    )
)  # fmt: skip
_WHICH = re.compile(r"\b(?:which|what(?:'s| is| are| was| were)?)\s+(?:(?:the|a|an|our|its)\s+)?([\w' -]{1,60})")
_MEANING = re.compile(r"^(?:so )?what(?:'s| is| are)\s+(?:an? |the )?([\w.-]+)[?!. ]*$|^(?:define|explain)\s")
_TRUTH = re.compile(
    r"^(?:is|are|was|were|do|does|did|can|could|may|might|must|should|shall|will|would|has|have|had)\b"
)
_FUTURE = re.compile(r"\b(?:will|going to|shall|next|planned for|upcoming|future|tomorrow)\b")
_HARD = re.compile(rf"\d|^(?:{_MONTH}|{_WEEKDAY})$")

_ASKING = frozenset(
    "a about actually all also am any anybody anyone anything around be been does dose doing each ever everything"
    " exactly find get gets getting give go goes going got had happen happens here i im it its just kind know let"
    " like list long look many may me mean means might much must my need now often one ones our ours please put say"
    " shall should show so some somebody someone something sort state still take takes tell thing things too us used"
    " using want way we whats when where which who whom whose why without would you your yours could can cannot"
    " dont doesnt there whether if then than how what use uses".split()
)
#: They say a little: a statement without them may still answer.
_LITTLE = frozenset(
    "current currently first last lasts house in-house run runs running take default work works make makes made"
    " need needs use name named called good real actual really right new own set instead best mean try whole"
    " possible handy different several same after before behind over under during while within against into onto back"
    " off out up down through between per via other another more most than instead again".split()
)


@dataclass(frozen=True, slots=True)
class Term:
    """A word of the question. ``form``: what it is found by (a stem or a compound); ``parts``: the stems of a
    compound; ``weight``: how much it says; ``hard``: a statement without it is about something else; ``name``:
    something in the knowledge base is called that.
    """

    text: str
    form: str
    parts: tuple[str, ...]
    group: str | None
    weight: float
    hard: bool
    name: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """``values``: the kinds of value, of which one must be carried; ``future``: what is to come is asked;
    ``many``: several things are asked for.
    """

    question: str
    terms: tuple[Term, ...]
    value: Value | None
    future: bool
    many: bool

    @property
    def weight(self) -> float:
        return sum(t.weight for t in self.terms)


def read_question(question: str, idf: Callable[[str], float], names: Collection[str] = ()) -> Asked:
    """What ``question`` asks. ``idf``: of a term of the keyword index; ``names``: what things are called,
    lower-cased.
    """
    shown = " ".join(question[:_MAX_READ].split())
    folded = words.fold(shown)
    value = _value(folded)
    asking = set(_ASKING)
    if re.search(r"\b(?:in|since|until|by|before|after|of|last|this) may\b|\bmay \d", folded):
        asking.discard("may")
    if value in (Value.DURATION, Value.FREQUENCY):
        asking |= {"last", "lasts", "lasted", "stay", "stays"}
    elif value is Value.PLACE:
        asking |= {"kept", "stored", "located", "found", "saved", "lie", "lies", "live", "lives", "placed"}
    found: dict[str, Term] = {}
    for run in words.runs(folded):
        run = run.removesuffix("'s")
        if run in STOP_WORDS or run in asking or (len(run) < 2 and not run.isdigit()):
            continue
        form = words.stem(run)
        if form in found or len(found) >= MAX_TERMS:
            continue
        own = tuple(words.stem(p) for p in words.parts(run) if p not in STOP_WORDS) if not run.isalnum() else ()
        known = [idf(t) for t in analyze(run)[0]]
        weight = min(max(max(known, default=_MAX_WEIGHT), _MIN_WEIGHT), _MAX_WEIGHT)
        if run in _LITTLE:
            weight *= _FAINT
        name = weight >= _MIN_NAME and run in names
        found[form] = Term(run, form, own, words.group(form), weight, bool(_HARD.search(run)), name)
    if words.DENIES.search(folded) and value is not Value.YES_NO:
        found[words.DENIAL] = Term("not", words.DENIAL, (), None, _DENIAL_WEIGHT, hard=False, name=False)
    many = bool(
        re.search(r"\b(?:which|what|list|all)\s+(?:are\s+)?(?:the\s+)?\w+s\b", folded)
        or re.search(r"\b(?:list|all|everything)\b|^what (?:is|are|does) (?:not|all)\b", folded)
    )
    return Asked(shown, tuple(found.values()), value, bool(_FUTURE.search(folded)), many)


def _value(folded: str) -> Value | None:
    if _MEANING.match(folded):
        return Value.MEANING
    for pattern, kind in _OPENINGS:
        if pattern.search(folded):
            return kind
    which = _WHICH.search(folded)
    if which:
        # The noun is the last word before a verb or a preposition; what stands behind is no longer it.
        noun = re.split(r"\b(?:is|are|was|were|do|does|did|has|have|can|of|for|in|on|to|that|must|should|will)\b", which[1])[0]
        for pattern, kind in _NOUNS:
            if pattern.search(noun):
                return kind
        return None
    if _TRUTH.match(folded):
        return Value.YES_NO
    head = re.split(r"\b(?:of|for|in|on|behind|from|used|with|between|when|that|which)\b", folded, maxsplit=1)[0]
    for pattern, kind in _NOUNS:
        if pattern.search(head):
            return kind
    return None


#: Of these kinds a value can be told from other words, so that a statement without one does not answer.
TOLD = frozenset(
    {
        Value.MOMENT,
        Value.DATE,
        Value.DURATION,
        Value.FREQUENCY,
        Value.NUMBER,
        Value.PORT,
        Value.VERSION,
        Value.ADDRESS,
        Value.SECRET,
    }
)


def carries(value: Value | None, said: str, question_runs: frozenset[str]) -> bool:
    """Whether a statement carries a kind of value that the question does not hold itself."""
    if value is None or value not in _CARRIES:
        return True
    if value is Value.SECRET and _PLACEHOLDER.search(said):
        return False
    return any(
        not set(words.runs(words.fold(m[0]))) <= question_runs or not words.runs(words.fold(m[0]))
        for m in _CARRIES[value].finditer(said)
    )
