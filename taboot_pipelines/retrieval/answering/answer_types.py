"""Kinds of value that questions ask for, and how each is told in a statement."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

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
    r"(?:milli|micro)?seconds?\b|minutes?\b|mins?\b|hours?\b|hrs?\b|days?\b|weeks?\b|months?\b|years?\b"
    r"|nights?\b|quarters?\b"
)
_AMOUNT = (
    r"\d+(?:[.,]\d+)?|half an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty"
    r"|thirty|forty|sixty|ninety"
)
_HALVES = r"(?:[\s-]and[\s-]a[\s-](?:half|quarter))?"
#: An amount of time with its unit.
_SPAN = rf"\b(?:{_AMOUNT}){_HALVES}[\s-]*(?:{_UNIT})|\b\d+(?:\.\d+)? ?(?:ms|[smhdw])\b"
_MONTH = (
    r"jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?"
)
_WEEKDAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?"
_DATE = (
    rf"\b\d{{4}}-\d\d(?:-\d\d)?\b|\b(?:\d{{1,2}}\.? (?:{_MONTH})|(?:{_MONTH}) \d{{1,4}})\b|\b(?:19|20)\d\d\b"
)
_TIME = r"\b\d{1,2}:\d\d\b|\b\d{1,2} ?[ap]\.?m\b|\bmidnight\b|\bnoon\b"
_CRON = r"(?:^|[\s\"'=])(?:[\d*/,-]+\s+){4,5}[\d*/,-]+"
_EVERY = (
    rf"\b(?:every|each|once|twice|hourly|daily|nightly|weekly|monthly|quarterly|yearly|per)\b|@every|{_CRON}"
)
_CLOCK = rf"{_DATE}|{_TIME}|{_EVERY}|\b{_WEEKDAY}\b"
_WHEN = r"\b(?:when|whenever|after|before|as soon as|until|if)\b"
_IP = r"\b\d{1,3}(?:\.\d{1,3}){3}\b|\b[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}\b"
_ADDRESS = rf"{_IP}|\b[\w-]+(?:\.[\w-]+)+\b|https?://"

#: What joins a reason to what it is the reason of.
_CAUSE = (
    r"\b(?:because|since|due to|so (?:that|it|they|we|i|you|the)|in order to|otherwise|therefore|thus|hence"
    r"|to (?:avoid|prevent|ensure|allow|keep|make sure)|as (?:it|they|we|i|this|the)|reason|necessary"
    r"|needs? to)\b"
)
CAUSE = re.compile(_CAUSE, re.IGNORECASE)

#: What a statement must hold, without the words of the question, to carry a kind of value.
_CARRIES: dict[Value, re.Pattern[str]] = {
    kind: re.compile(pattern, re.IGNORECASE)
    for kind, pattern in {
        Value.MOMENT: rf"{_CLOCK}|{_SPAN}|{_WHEN}|\b(?:night|morning|evening|afternoon|at once)\b",
        Value.DATE: _CLOCK,
        Value.DURATION: rf"{_SPAN}|\b(?:for|about|within|takes?|took|after|in|nearly|lasts?"
        rf"|lasted|than|half)\s+an?\s+(?:{_UNIT})|\b\d+ (?:daily|weekly|monthly|hourly)\b|\bforever\b"
        rf"|\b(?:daily|weekly|monthly)[ =]\d+",
        Value.FREQUENCY: rf"{_EVERY}|{_SPAN}|\b{_WEEKDAY}\b|\b\d+ times\b",
        Value.NUMBER: rf"\d|\b(?:{_AMOUNT})\b|\b(?:no|none|both|single)\b",
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
        r"|admin\w*|owner|users?|everyone|everybody|nobody|anyone|anybody|whoever|people|members?|family|we"
        r"|you|by \w+)\b",
        Value.REASON: rf"{_CAUSE}|\b(?:so|which is why|instead of|to (?:get|make)|would|could|was|were|had"
        r"|this)\b",
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

#: A setting that is a number has its unit in its key, or nowhere.
SET_NUMBER = re.compile(r"(?:\b(?:to|is)|[:=]) ?[\"']?\d+(?:\.\d+)?(?![\w/:-]|\.\d)")

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


#: Spans of time.
SPANS = frozenset({Value.DURATION, Value.FREQUENCY})

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


# --- How a question is read, once for facts and for text: the kind of value that it asks for, and how it
#     asks for it (a yes or no, a count, a list, a comparison)
#
# Read from the question alone, by the words that begin it and the noun that it asks for; a question of a
# few words without a verb ("gitea ssh port") asks for what its noun names.

_MAX_READ = 4000

_BEGIN = r"(?:^|[,;:?.] ?|\b(?:and|or|so|but|exactly|then) )"
_OPENINGS: tuple[tuple[re.Pattern[str], Value | None], ...] = tuple(
    (re.compile(pattern), kind)
    for pattern, kind in (
        (r"\bhow long\b|\bfor how (?:long|many (?:days|hours|minutes|weeks|months|years))\b", Value.DURATION),
        (r"\bhow (?:much time|far (?:in advance|ahead|back|beforehand))\b", Value.DURATION),
        (r"\bon (?:which|what) frequency\b", Value.NUMBER),
        (r"\bhow (?:often|frequently)\b", Value.FREQUENCY),
        # An age is a span of time, or the date since when.
        (r"\bhow old\b", Value.MOMENT),
        (r"\bwhen(?:'s| is| was| were| did| will| has| have| had)\b", Value.DATE),
        (r"\bwhat (?:to do|now|do (?:i|we|you) do)\b", Value.STEPS),
        (r"\bwhat (?:should|must|can|shall) (?:i|we|you|one) do\b", Value.STEPS),
        (r"\bwhat (?:must|should|has to|have to|needs? to|is to|can) be (?:done|checked)\b", Value.STEPS),
        (r"\bwhat (?:do|does) (?:i|we|you|one) (?:need|have) to do\b", Value.STEPS),
        (r"\b(?:which|what) (?:order|sequence)\b", Value.STEPS),
        (r"\bhow (?:much|expensive)\b.*\b(?:costs?|pay|paid|charges?|expensive|price)\b", Value.PRICE),
        (r"\bwhat (?:does|do|did|will)\b.*\bcost\b", Value.PRICE),
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
    r"\b(?:is|are|was|were|do|does|did|has|have|can|of|for|in|on|to|at|by|with|that|must|should|will|would"
    r"|may|behind|from)\b"
)
_HEAD_END = re.compile(r"\b(?:of|for|in|on|behind|from|used|with|between|when|that|which)\b")
#: A question without a verb has a short head.
_MAX_HEAD = 5
_WHICH = re.compile(
    r"\b(?:which|what(?:'s| is| are| was| were)?)\s+(?:(?:the|a|an|our|its)\s+)?([\w' -]{1,60})"
)
_MEANING = re.compile(r"^(?:so )?what(?:'s| is| are)\s+(?:an? |the )?([\w.-]+)[?!. ]*$|^(?:define|explain)\s")
_TRUTH = re.compile(
    r"^(?:is|are|was|were|do|does|did|can|could|may|might|must|should|shall|will|would|has|have|had)\b"
)
#: Who asks whether one could tell asks for what is to be told.
_POLITE = re.compile(r"(?:can|could|would|will) (?:you|somebody|someone|anybody|anyone) (?:please )?\w+ ")
#: What begins with a word before an article is an instruction: nothing is called "reset the".
_IMPERATIVE = re.compile(
    r"(?:please )?(?!(?:in|on|at|for|of|is|by|to|with|from|and|or|if|as|after|before|behind|during|over|under"
    r"|all|both|not|about|list|show|tell|give|name|say|find|explain|describe|define|count|compare"
    r"|get)\b)[a-z]{3,} (?:the|an?|my|our|your|this)\b"
)
#: What the house consists of.
_THINGS = (
    r"(?:services?|containers?|stacks?|projects?|sites?|vhosts?|hosts?|host ?names?|(?:sub)?domains?"
    r"|networks?|volumes|secrets|machines?|box(?:es)?|servers?|backups)"
)
_WHICH_OF = (
    rf"\b(?:which|what|how many|list|show)(?: (?:me|all|of|the|our|my|other|public|every))* {_THINGS}\b"
)
_USERS = (
    r"^(?:what|who) (?:else )?(?:depends?|uses?|mounts?|relies|needs|requires|reads|writes|runs on|breaks"
    r"|would break|(?:is|are) (?:behind|exposed|published|protected|open|reachable))\b"
    r"|^what (?:does|do) .* depends? on\b"
)
#: A question about the things of the house and what joins them.
_INVENTORY = re.compile(rf"{_WHICH_OF}|{_USERS}")
_COMPARES = re.compile(
    r"\b(?<!at )(?:most(?! recent)|least|fewest|(?:larg|bigg|small|high|low|long|short|fast|slow|old|heavi"
    r"|great|cheap)est)\b|\b(?:more|less|fewer|larger|bigger|smaller|higher|lower"
    r"|older|longer|shorter) than \d|\b(?:total|altogether|sum|average|combined)\b"
)
_OURS = re.compile(r"\b(?:we|our|ours|us)\b")
#: What vendors document for everybody.
_DOCUMENTED = (Value.STEPS, Value.MEANING, Value.COMMAND)
#: Asks how many.
COUNT = re.compile(r"\b(?:how many|number of|count(?: of)?|amount of)\b")
_TRANSITIVE = re.compile(
    r"\b(?:transitive(?:ly)?|indirect(?:ly)?|everything that|recursive(?:ly)?|in turn|whole chain)\b"
)
#: The verb of the clause that asks is denied; what stands behind "if" is another clause, and who cannot run
#: without a thing needs it.
_DENIED = re.compile(
    r"^(?:which|what|who|list|show|find|name|tell|give)\b"
    r"(?:(?!\b(?:if|when|after|once|because|how|why|while)\b)[^,;?])*?"
    r"(?:\b(?:do|does|did|is|are|was|were|has|have|had|can|could|will|would|should)(?:n't| not)\b"
    r"|\b(?:has|have|had|with|uses?|sets?|declares?|publish(?:es)?|needs?) no\b|\bnever\b)"
    r"(?!.*\b(?:without|but|except|unless|if|when|until)\b)"
)
_EXCEPT = re.compile(r"\b(?:neither|except)\b")
_ALL_OF = r"(?: me)?(?: all| every| each| the| of the| of our| our)*"
#: What runs, in the terms of Compose and of Kubernetes.
_RUNNING = r"(?:services?|containers?|apps?|stacks?|deployments|pods|workloads)"
_LISTED = rf"(?:which|what|list|show|how many|all|name){_ALL_OF} {_RUNNING}\b"
_LISTS_SERVICES = re.compile(_LISTED)
_LISTS = re.compile(
    rf"{_LISTED}|any (?:{_RUNNING}|images?)\b"
    rf"|(?:which|what|list|show|how many|all|name|any){_ALL_OF}"
    r" images?\b"
    r"|(?:services|containers|apps)\b|(?:[\w-]+ ){1,3}(?:services|containers|apps)\W*$"
    r"|(?:who|what|does anything|is anything|anything) (?!is the\b|are the\b)"
)
#: A noun in the plural; what looks like one, but is a verb.
_PLURAL = re.compile(r"[\w-]{2,}[^\W\dsiu_]s")
_SINGULAR_VERBS = frozenset({"does", "uses", "runs", "needs", "gets", "takes", "wants", "listens"})
_ENUMERATE = frozenset({"list", "name", "show", "all"})
#: Words among which the noun is that an enumeration asks for.
_MAX_BEFORE = 5


@dataclass(frozen=True, slots=True)
class Reading:
    """``question``: on one line; ``value``: the kind of value asked for; ``noun``: the words that name the
    property asked for; ``truth``: it begins as one for a yes or no; ``counts``: it asks how many;
    ``negated``: it denies something, and ``denied``: it asks for what is not so; ``transitive``: what follows
    indirectly counts too; ``ours``: the house's own things are asked for; ``inventory``: which of the house's
    things are so, what no vendor knows; ``lists``: which things are so, named or not, and
    ``lists_services``: which services, called so; ``several``: things of any kind, in the plural;
    ``compares``: the words that ask for a comparison or a sum, in lower case.
    """

    question: str
    folded: str
    value: Value | None
    noun: str
    truth: bool
    counts: bool
    negated: bool
    denied: bool
    transitive: bool
    ours: bool
    inventory: bool
    lists: bool
    lists_services: bool
    several: bool
    compares: str


@lru_cache(maxsize=1024)
def read(question: str) -> Reading:
    """How a question is read."""
    shown = " ".join(question[:_MAX_READ].split())
    lower, folded = shown.lower(), words.fold(shown)
    value, noun = _read(folded)
    ours = bool(_OURS.search(folded))
    compares = _COMPARES.search(folded)
    return Reading(
        question=shown,
        folded=folded,
        value=value,
        noun=noun,
        truth=bool(_TRUTH.match(folded)) and not _POLITE.match(folded),
        counts=bool(COUNT.search(lower)),
        negated=bool(words.DENIES.search(folded) or _EXCEPT.search(folded)),
        denied=bool(_DENIED.search(folded)),
        transitive=bool(_TRANSITIVE.search(lower)),
        ours=ours,
        inventory=bool(_INVENTORY.search(folded)) or (ours and value not in _DOCUMENTED),
        lists=bool(_LISTS.match(lower)),
        lists_services=bool(_LISTS_SERVICES.match(lower)),
        several=bool(_LISTS_SERVICES.match(lower)) or _of_several(lower, noun),
        compares=compares[0] if compares else "",
    )


def _of_several(lower: str, noun: str) -> bool:
    """Whether a question asks for things in the plural, by its noun, or for whoever does something."""
    first, *others = lower.split() or [""]
    among = others[:_MAX_BEFORE] if first in _ENUMERATE else noun.split()[:2]
    return first == "who" or any(_PLURAL.fullmatch(w) and w not in _SINGULAR_VERBS for w in among)


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
        noun = _NOUN_END.split(which[1], maxsplit=1)[0].strip()
    elif _TRUTH.match(folded) and not _POLITE.match(folded):
        return Value.YES_NO, ""
    elif _IMPERATIVE.match(folded):
        return Value.STEPS, ""
    else:
        noun = _HEAD_END.split(folded, maxsplit=1)[0].strip()
    for pattern, kind in NOUNS:
        if pattern.search(noun):
            return kind, noun
    return None, noun if which or len(noun.split()) <= _MAX_HEAD else ""
