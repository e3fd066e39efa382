"""Kinds of value that questions ask for, and how each is told in a statement."""

from __future__ import annotations

import re
from enum import Enum

from taboot_pipelines.retrieval.answering import words


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
    IP = "an IP address"
    PRICE = "a price"
    PLACE = "a place"
    PATH = "a path"
    PERSON = "a person"
    SECRET = "a secret"
    STEPS = "the way to do it"
    REASON = "a reason"
    YES_NO = "yes or no"
    MEANING = "what it is"
    COMMAND = "a command"
    PHONE = "a phone number"
    EMAIL = "an e-mail address"


_UNIT = (
    r"(?:milli|micro)?seconds?\b|minutes?\b|mins?\b|hours?\b|hrs?\b|days?\b|weeks?\b|months?\b|years?\b|nights?\b"
    r"|quarters?\b"
)
AMOUNT = (
    r"\d+(?:[.,]\d+)?|half an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty"
    r"|thirty|forty|sixty|ninety"
)
_HALVES = r"(?:[\s-]and[\s-]a[\s-](?:half|quarter))?"
#: An amount of time with its unit.
_SPAN = rf"\b(?:{AMOUNT}){_HALVES}[\s-]*(?:{_UNIT})|\b\d+(?:\.\d+)? ?(?:ms|[smhdw])\b"
MONTH = (
    r"jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?"
)
WEEKDAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?"
_DATE = (
    rf"\b\d{{4}}-\d\d(?:-\d\d)?\b|\b(?:\d{{1,2}}\.? (?:{MONTH})|(?:{MONTH}) \d{{1,4}})\b|\b(?:19|20)\d\d\b"
)
_TIME = r"\b\d{1,2}:\d\d\b|\b\d{1,2} ?[ap]\.?m\b|\bmidnight\b|\bnoon\b"
_CRON = r"(?:^|[\s\"'=])(?:[\d*/,-]+\s+){4,5}[\d*/,-]+"
_EVERY = (
    rf"\b(?:every|each|once|twice|hourly|daily|nightly|weekly|monthly|quarterly|yearly|per)\b|@every|{_CRON}"
)
_CLOCK = rf"{_DATE}|{_TIME}|{_EVERY}|\b{WEEKDAY}\b"
_WHEN = r"\b(?:when|whenever|after|before|as soon as|until|if)\b"
_IP = r"\b\d{1,3}(?:\.\d{1,3}){3}\b|\b[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}\b"
_ADDRESS = rf"{_IP}|\b[\w-]+(?:\.[\w-]+)+\b|https?://"

#: What a statement must hold, without the words of the question, to carry a kind of value.
_CARRIES: dict[Value, re.Pattern[str]] = {
    kind: re.compile(pattern, re.IGNORECASE)
    for kind, pattern in {
        Value.MOMENT: rf"{_CLOCK}|{_SPAN}|{_WHEN}|\b(?:night|morning|evening|afternoon|at once)\b",
        Value.DATE: _CLOCK,
        Value.DURATION: rf"{_SPAN}|\b(?:for|about|within|takes?|took|after|in|nearly|lasts?"
        rf"|lasted|than|half)\s+an?\s+(?:{_UNIT})|\b\d+ (?:daily|weekly|monthly|hourly)\b|\bforever\b"
        rf"|\b(?:daily|weekly|monthly)[ =]\d+",
        Value.FREQUENCY: rf"{_EVERY}|{_SPAN}|\b{WEEKDAY}\b|\b\d+ times\b",
        Value.NUMBER: rf"\d|\b(?:{AMOUNT})\b|\b(?:no|none|both|single)\b",
        Value.PORT: r"(?<![\d.])\d{2,5}(?![\d.]*\.\d)\b",
        Value.VERSION: r"\bv?\d+(?:\.\d+)+|:\w*\d[\w.-]*|\blatest\b|\bv?\d+\b",
        Value.ADDRESS: _ADDRESS,
        Value.IP: _IP,
        Value.PRICE: r"[$€£¥]|\b\d[\d.,]* ?(?:usd|eur|gbp|chf|dollars?|euros?|pounds?|cents?)\b"
        r"|\bfree\b|\bfor nothing\b",
        Value.PHONE: r"(?:\+|\b0)\d[\d ()/-]{4,}\d|\b\d{3}[ -]\d{3,4}(?:[ -]\d{2,4})?\b"
        r"|\bext(?:ension)?\.? ?\d+",
        Value.EMAIL: r"[\w.+-]+@[\w-]+\.\w+",
        Value.PLACE: rf"[\w.~-]*/[\w./-]+|\b(?:in|on|at|under|below|inside|behind|from|to|into)\s+\S"
        rf"|{_ADDRESS}",
        Value.PATH: r"[\w.~-]*/[\w./-]+|\b[\w-]+\.[a-z][\w]{1,5}\b",
        Value.PERSON: r"\A\W*(?-i:[A-Z][a-z]+ (?:[a-z]+s|[a-z]+ed|will|has)\b)"
        r"|(?-i:(?<=[\w,;:)] )[A-Z][a-z]+\b)|(?-i:\b[A-Z][a-z]+ [A-Z][a-z]+\b)|\b(?:root"
        r"|admin\w*|owner|users?|everyone|everybody|nobody|anyone|anybody|whoever|people|members?|family|we|you"
        r"|by \w+)\b",
        Value.REASON: r"\b(?:because|since|so that|so|otherwise|in order to|due to|reason|therefore"
        r"|which is why|to avoid|instead of|to (?:get|allow|keep|make|prevent|ensure)|as it|would|could|was"
        r"|were|had|this)\b",
        Value.SECRET: r"(?:passw\w*|passphrase|secret|token|credentials?|login)\W{0,4}"
        r"(?:[:=]|\b(?:is|are|was|in|under|to|defaults?|set)\b)\W*\w",
        Value.COMMAND: r"`[^`]+`|^\W*(?:sudo|docker|alias|systemctl|kubectl|apt|git|curl|ssh)\s|\s-{1,2}\w",
    }.items()
}

#: A setting that is filled in elsewhere, or masked, does not say the secret.
_PLACEHOLDER = re.compile(r"\$\{?\w|\*{3,}|[=:]\s*[\"'`]*\s*(?:;|$)|<[\w -]+>")

NOUNS: tuple[tuple[re.Pattern[str], Value], ...] = tuple(
    (re.compile(pattern), kind)
    for pattern, kind in (
        (r"\b(?:tele)?phone numbers?\b|\bhotline\b", Value.PHONE),
        (r"\be-?mail address(?:es)?\b", Value.EMAIL),
        (r"\bports?\b", Value.PORT),
        (r"\b(?:versions?|releases?|tag)\b", Value.VERSION),
        (r"\bips?\b", Value.IP),
        (r"\b(?:price|costs?|fee)\b", Value.PRICE),
        (r"\b(?:address(?:es)?|subnet|gateway|ur[li]|(?:sub)?domains?|host ?name)\b", Value.ADDRESS),
        (r"\b(?:date|year|month)\b", Value.DATE),
        (r"\b(?:time|day|weekday|hour)\b|\b(?<!retention )(?<!grace )period\b", Value.MOMENT),
        (r"\b(?:path|file|directory|folder|mount ?point)\b", Value.PATH),
        (r"\b(?:location|place)\b", Value.PLACE),
        (r"\b(?:password|passphrase|secret|token|credentials?)\b", Value.SECRET),
        (r"\b(?:number|count|amount|size|limit|percentage|share|threshold|quota|capacity)\b", Value.NUMBER),
        (
            r"\b(?:rate|speed|length|width|height|depth|weight|temperature|ratio|voltage|distance|bandwidth"
            r"|humidity|pressure|altitude|power consumption)\Z",
            Value.NUMBER,
        ),
        (r"\b(?:interval|frequency)\b", Value.FREQUENCY),
        (r"\b(?:timeout|duration|retention|uptime|downtime|expiry|ttl)\b", Value.DURATION),
        (r"\b(?:command|alias)\b", Value.COMMAND),
        (r"\b(?:person|author|owner|maintainer)\b", Value.PERSON),
        (r"\b(?:reason|cause)\b", Value.REASON),
    )
)  # fmt: skip

#: What is to come, or comes again and again.
_TO_COME = re.compile(
    r"\b(?:will|shall|going to|next|planned|scheduled|upcoming|until|due|from now|every|each|once an?|monthly"
    r"|weekly|daily|yearly|quarterly|(?:mon|tues|wednes|thurs|fri|satur|sun)days?)\b",
    re.IGNORECASE,
)
#: What a kind of value is called says nothing that the value does not say itself.
SAID_BY = {
    Value.VERSION: frozenset({"version", "releas", "tag"}),
    Value.ADDRESS: frozenset({"ip", "address", "url", "domain", "subnet"}),
    Value.IP: frozenset({"ip", "address"}),
    Value.PRICE: frozenset({"cost", "price", "fee", "pay", "paid"}),
    Value.DATE: frozenset({"date", "year", "month", "day"}),
    Value.MOMENT: frozenset({"time", "date", "day", "old", "period"}),
    Value.DURATION: frozenset({"durat", "time"}),
    Value.COMMAND: frozenset({"command"}),
    Value.PATH: frozenset({"path", "file", "directori", "folder"}),
    Value.PLACE: frozenset({"locat", "place"}),
    Value.REASON: frozenset({"reason"}),
    Value.PERSON: frozenset({"person"}),
    Value.PHONE: frozenset({"phone", "telephon", "number"}),
    Value.EMAIL: frozenset({"email", "mail", "address"}),
}
_UNITS = (
    (
        ("length", "long", "width", "wide", "height", "high", "tall", "depth", "deep", "distanc"),
        r"mm|cm|m|km|inch(?:es)?|feet|ft|characters?|chars?|letters?|digits?|bytes|lines|U",
    ),
    (("weight", "weigh", "heavi"), r"kg|g|t|tons?|tonnes?|lbs?|pounds"),
    (("temperatur", "hot", "cold", "warm"), r"°C|°F|° C|degrees?|K"),
    (
        ("speed", "rate", "bandwidth", "throughput", "fast"),
        r"[kMGT]?i?[bB](?:it)?/s|[kmgKMG]?bps|rpm|baud|Hz|per (?:second|minute|hour|day)|requests",
    ),
    (("frequenc",), r"[kMGT]?Hz"),
    (("voltag",), r"V|volts?"),
    (("power", "consumpt"), r"k?W|watts?|k?VA"),
    (("humid", "percentag", "share", "ratio"), r"%|percent"),
)
#: By the stem of a dimension, a number with one of its units.
UNITS = {stem: re.compile(rf"\d ?(?:{units})(?!\w)") for stems, units in _UNITS for stem in stems}
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
        Value.IP,
        Value.PRICE,
        Value.SECRET,
        Value.PATH,
        Value.PHONE,
        Value.EMAIL,
    }
)


#: The words by which what happened is told.
_TOLD_IN = frozenset({"was", "were", "had", "this"})


def carries(value: Value | None, said: str, question_runs: frozenset[str]) -> bool:
    """Whether a statement carries a kind of value that the question does not hold itself."""
    if value is None or value not in _CARRIES:
        return True
    if value is Value.SECRET and _PLACEHOLDER.search(said):
        return False
    if value is Value.REASON:
        question_runs -= _TOLD_IN  # "what was the cause" does not give away what was
    return any(
        not set(words.runs(words.fold(m[0]))) <= question_runs or not words.runs(words.fold(m[0]))
        for m in _CARRIES[value].finditer(said)
    )


def to_come(said: str) -> bool:
    """Whether a statement speaks of what is to come."""
    return bool(_TO_COME.search(said))
