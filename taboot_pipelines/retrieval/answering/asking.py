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
#: What is left of the coverage of a statement that lacks a number or date of the question, the property asked
#: for, a word that no document holds.
_WITHOUT_NUMBER, _WITHOUT_FOCUS, _WITHOUT_UNKNOWN = 0.6, 0.75, 0.75
#: No text holds it.
_UNKNOWN = "\uffff"


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
    r"(?:milli|micro)?seconds?\b|minutes?\b|mins?\b|hours?\b|hrs?\b|days?\b|weeks?\b|months?\b|years?\b|nights?\b"
    r"|quarters?\b"
)
_AMOUNT = (
    r"\d+(?:[.,]\d+)?|half an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty"
    r"|forty|sixty|ninety"
)
#: An amount of time with its unit.
_SPAN = rf"\b(?:{_AMOUNT})[\s-]*(?:{_UNIT})|\b\d+(?:\.\d+)? ?(?:ms|[smhdw])\b"
_MONTH = (
    r"jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?"
)
_WEEKDAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?"
_DATE = rf"\b\d{{4}}-\d\d(?:-\d\d)?\b|\b(?:\d{{1,2}}\.? (?:{_MONTH})|(?:{_MONTH}) \d{{1,4}})\b|\b(?:19|20)\d\d\b"
_TIME = r"\b\d{1,2}:\d\d\b|\b\d{1,2} ?[ap]\.?m\b|\bmidnight\b|\bnoon\b"
_CRON = r"(?:^|[\s\"'=])(?:[\d*/,-]+\s+){4,5}[\d*/,-]+"
_EVERY = rf"\b(?:every|each|once|twice|hourly|daily|nightly|weekly|monthly|quarterly|yearly|per)\b|@every|{_CRON}"
_CLOCK = rf"{_DATE}|{_TIME}|{_EVERY}|\b{_WEEKDAY}\b"
_WHEN = r"\b(?:when|whenever|after|before|as soon as|until|if)\b"
_ADDRESS = r"\b\d{1,3}(?:\.\d{1,3}){3}\b|\b[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}\b|\b[\w-]+(?:\.[\w-]+)+\b|https?://"

#: What a statement must hold, without the words of the question, to carry a kind of value.
_CARRIES: dict[Value, re.Pattern[str]] = {
    kind: re.compile(pattern, re.IGNORECASE)
    for kind, pattern in {
        Value.MOMENT: rf"{_CLOCK}|{_SPAN}|{_WHEN}|\b(?:night|morning|evening|afternoon|at once|immediately)\b",
        Value.DATE: _CLOCK,
        Value.DURATION: rf"{_SPAN}|\b(?:for|about|within|takes?|took|after|in|nearly|lasts?"
        rf"|lasted|than|half)\s+an?\s+(?:{_UNIT})|\b\d+ (?:daily|weekly|monthly|hourly)\b|\bforever\b"
        rf"|\b(?:daily|weekly|monthly)[ =]\d+",
        Value.FREQUENCY: rf"{_EVERY}|{_SPAN}|\b{_WEEKDAY}\b|\b\d+ times\b",
        Value.NUMBER: rf"\d|\b(?:{_AMOUNT})\b|\b(?:no|none|both|single)\b",
        Value.PORT: r"(?<![\d.])\d{2,5}(?![\d.]*\.\d)\b",
        Value.VERSION: r"\bv?\d+(?:\.\d+)+|:\w*\d[\w.-]*|\blatest\b|\bv?\d+\b",
        Value.ADDRESS: _ADDRESS,
        Value.PLACE: rf"[\w.~-]*/[\w./-]+|\b(?:in|on|at|under|below|inside|behind|from|to|into)\s+\S|{_ADDRESS}",
        Value.PERSON: r"(?-i:(?<=[\w,;:)] )[A-Z][a-z]+\b)|(?-i:\b[A-Z][a-z]+ [A-Z][a-z]+\b)|\b(?:root|admin\w*"
        r"|owner|users?|everyone|everybody|nobody|anyone|anybody|whoever|people|members?|family|we|you|by \w+)\b",
        Value.REASON: r"\b(?:because|since|so that|so|otherwise|in order to|due to|reason|therefore|which is why"
        r"|to avoid|instead of|to (?:get|allow|keep|make|prevent|ensure)|as it|would|could|was|were|had|this)\b",
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
        (r"\b(?:path|file|directory|folder|location|mount point|place)\b", Value.PLACE),
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
        (r"\bhow old\b|\bwhen(?:'s| is| was| were| did| will| has| have| had)\b", Value.DATE),
        (r"\bwhat (?:to do|now|do (?:i|we|you) do|(?:should|must|can|shall) (?:i|we|you|one) do)\b", Value.STEPS),
        (r"\bhow (?:many|much|big|large|high|far|fast|few)\b", Value.NUMBER),
        (r"\bwhat(?:'s| is| are)? (?:the )?(?:steps?|procedure|way|process)\b", Value.STEPS),
        (r"\bhow (?:do|does|can|could|should|would|to|must|shall|may)\b", Value.STEPS),
        (r"\bhow(?:'s| is| are| was| were)\b", None),
        (r"\bwhat (?:caused|causes|led to|is the (?:reason|cause))\b", Value.REASON),
        (r"\bwhy\b|\bhow come\b|\bwhat for\b|\bgood for\b", Value.REASON),
        (r"\bwho\b|\bwhom\b|\bwhose\b", Value.PERSON),
        (r"\b(?:in|since) (?:which|what) year\b|\b(?:on )?(?:which|what) (?:date|day)\b", Value.DATE),
        (r"\b(?:at )?(?:what|which) time\b|\b(?:since|until) when\b", Value.MOMENT),
        (rf"{_BEGIN}when\b", Value.MOMENT),
        (r"^where\b|\bwhere (?:is|are|do|does|can|was|were|to)\b", Value.PLACE),
    )
)  # fmt: skip
_HOW_MUCH = re.compile(r"\bhow (?:much|big|large|high|far|fast) (?:is |are )?([\w-]+)")
_NOUN_END = re.compile(
    r"\b(?:is|are|was|were|do|does|did|has|have|can|of|for|in|on|to|at|by|with|that|must|should|will|would|may|behind"
    r"|from)\b"
)
_HEAD_END = re.compile(r"\b(?:of|for|in|on|behind|from|used|with|between|when|that|which)\b")
#: A question without a verb has a short head.
_MAX_HEAD = 5
_WHICH = re.compile(r"\b(?:which|what(?:'s| is| are| was| were)?)\s+(?:(?:the|a|an|our|its)\s+)?([\w' -]{1,60})")
_MEANING = re.compile(r"^(?:so )?what(?:'s| is| are)\s+(?:an? |the )?([\w.-]+)[?!. ]*$|^(?:define|explain)\s")
_TRUTH = re.compile(
    r"^(?:is|are|was|were|do|does|did|can|could|may|might|must|should|shall|will|would|has|have|had)\b"
)
_FUTURE = re.compile(r"\b(?:will|going to|shall|next|planned for|upcoming|future|tomorrow)\b")
#: What is to come, or comes again and again.
_TO_COME = re.compile(
    r"\b(?:will|shall|going to|next|planned|scheduled|upcoming|until|due|from now|every|each|once an?|monthly"
    r"|weekly|daily|yearly|quarterly|(?:mon|tues|wednes|thurs|fri|satur|sun)days?)\b",
    re.IGNORECASE,
)
_HOW_MANY = re.compile(r"\bhow (?:many|few) (?:[\w-]+ )??([\w-]+)(?= |\?|$)")
_NUMBER = re.compile(rf"\d+(?:[.,]\d+)?|(?:{_AMOUNT}|no|none|both|single)")
#: Words between a number and what it counts.
_COUNT_REACH = 3
_OURS = re.compile(r"\b(?:we|our|ours|us)\b")
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
    " possible handy different several same type kind sort after before behind over under during while within against into onto back"
    " off out up down through between per via other another more most than instead again holds hold contain contains next planned".split()
)


@dataclass(frozen=True, slots=True)
class Term:
    """A word of the question. ``form``: what it is found by (a stem or a compound); ``parts``: the stems of a
    compound; ``weight``: how much it says; ``missing``: what the coverage of a statement without it
    is multiplied by; ``name``: something in the knowledge base is called that.
    """

    text: str
    form: str
    parts: tuple[str, ...]
    group: str | None
    weight: float
    missing: float
    name: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """``values``: the kinds of value, of which one must be carried; ``future``: what is to come is asked;
    ``many``: several things are asked for; ``ours``: the house's own is asked about;
    ``counts``: the stem of what "how many" counts.
    """

    question: str
    terms: tuple[Term, ...]
    value: Value | None
    future: bool
    many: bool
    ours: bool
    counts: str | None = None

    @property
    def weight(self) -> float:
        return sum(t.weight for t in self.terms)


def read_question(question: str, idf: Callable[[str], float], names: Collection[str] = ()) -> Asked:
    """What ``question`` asks. ``idf``: of a term of the keyword index; ``names``: what things are called,
    lower-cased.
    """
    shown = " ".join(question[:_MAX_READ].split())
    folded = words.fold(shown)
    value, noun = _read(folded)
    focus = frozenset(words.runs(noun))
    unknown = idf(_UNKNOWN)
    asking = set(_ASKING)
    if re.search(r"\b(?:in|since|until|by|before|after|of|last|this) may\b|\bmay \d", folded):
        asking.discard("may")
    if value in (Value.DURATION, Value.FREQUENCY):
        asking |= {"last", "lasts", "lasted", "stay", "stays"}
    elif value is Value.REASON:
        asking |= {"cause", "caused", "causes", "reason"}
    elif value is Value.PLACE:
        asking |= {"come", "comes", "kept", "stored", "located", "found", "saved", "lie", "lies", "live", "lives", "placed"}
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
        missing = 1.0
        if _HARD.search(run):
            missing = _WITHOUT_NUMBER
        elif run in focus and run not in _LITTLE:
            missing = _WITHOUT_FOCUS
        elif max(known, default=0.0) >= unknown:
            missing = _WITHOUT_UNKNOWN
        found[form] = Term(run, form, own, words.group(form), weight, missing, name)
    if words.DENIES.search(folded) and value is not Value.YES_NO:
        found[words.DENIAL] = Term("not", words.DENIAL, (), None, _DENIAL_WEIGHT, 1.0, name=False)
    many_of = _HOW_MANY.search(folded)
    many = bool(
        re.search(r"\b(?:which|what|list|all)\s+(?:are\s+)?(?:the\s+)?\w+s\b", folded)
        or re.search(r"\b(?:list|all|everything)\b|^what (?:is|are|does) (?:not|all)\b", folded)
    )
    return Asked(
        question=shown,
        terms=tuple(found.values()),
        value=value,
        future=bool(_FUTURE.search(folded)) and value in (Value.MOMENT, Value.DATE, Value.VERSION),
        many=many,
        ours=bool(_OURS.search(folded)),
        counts=words.stem(many_of[1]) if many_of else None,
    )


def _read(folded: str) -> tuple[Value | None, str]:
    """The kind of value that is asked for, and the words that name the property asked for."""
    if _MEANING.match(folded):
        return Value.MEANING, ""
    for pattern, kind in _OPENINGS:
        if pattern.search(folded):
            much = _HOW_MUCH.search(folded) if kind is Value.NUMBER else None
            return kind, much[1] if much else ""
    which = _WHICH.search(folded)
    if which:
        # The noun ends before a verb or a preposition; what stands behind is no longer it.
        noun = _NOUN_END.split(which[1], maxsplit=1)[0]
    elif _TRUTH.match(folded):
        return Value.YES_NO, ""
    else:
        noun = _HEAD_END.split(folded, maxsplit=1)[0]
    for pattern, kind in _NOUNS:
        if pattern.search(noun):
            return kind, noun
    return None, noun if which or len(noun.split()) <= _MAX_HEAD else ""


def to_come(said: str) -> bool:
    """Whether a statement speaks of what is to come."""
    return bool(_TO_COME.search(said))


#: What a kind of value is called says nothing that the value does not say itself.
_SAID_BY = {
    Value.VERSION: frozenset({"version", "releas", "tag"}),
    Value.ADDRESS: frozenset({"ip", "address", "url", "domain", "subnet"}),
    Value.DATE: frozenset({"date", "year", "month", "day"}),
    Value.MOMENT: frozenset({"time", "date", "day", "old"}),
    Value.DURATION: frozenset({"durat", "time"}),
    Value.COMMAND: frozenset({"command"}),
    Value.PLACE: frozenset({"path", "file", "directori", "folder", "locat", "place"}),
    Value.REASON: frozenset({"reason"}),
    Value.PERSON: frozenset({"person"}),
}
_BYTES = re.compile(r"\b\d+(?:\.\d+)? ?[kmgt]i?b?\b", re.IGNORECASE)
_MEASURED = frozenset({"memori", "ram", "storag", "size", "space"})


def implied(term: Term, value: Value | None, said: str) -> bool:
    """Whether a statement that carries the kind of value thereby says the term."""
    if value is not None and term.form in _SAID_BY.get(value, ()):
        return True
    return term.form in _MEASURED and bool(_BYTES.search(said))


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


def counted(asked: Asked, said: str) -> bool:
    """Whether a statement counts what "how many" asks for: a number stands near it."""
    if asked.counts is None:
        return True
    runs = words.runs(words.fold(said))
    stems = [[words.stem(p) for p in words.parts(run)] for run in runs]
    at = [i for i, own in enumerate(stems) if asked.counts in own]
    numbers = [i for i, run in enumerate(runs) if _NUMBER.fullmatch(run)]
    return any(abs(i - j) <= _COUNT_REACH for i in at for j in numbers)


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
