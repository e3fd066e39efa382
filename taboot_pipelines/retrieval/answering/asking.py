"""What a question asks: the words that a statement must be about, and the kind of value it must carry.

Read from the question alone, by the words that begin it and the noun that it asks for; a question of a few
words without a verb ("gitea ssh port") asks for what its noun names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

from taboot_pipelines.packaged import word_list
from taboot_pipelines.retrieval.answering import words
from taboot_pipelines.retrieval.answering.values import AMOUNT, MONTH, NOUNS, SAID_BY, WEEKDAY, Value, carries
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
#: What is left of the coverage of a statement that lacks a number or date of the question, the thing asked
#: about, the property asked for, a word that no document holds.
_WITHOUT_NUMBER, _WITHOUT_SUBJECT, _WITHOUT_FOCUS, _WITHOUT_UNKNOWN = 0.6, 0.65, 0.75, 0.75
#: No text holds it.
_UNKNOWN = "\uffff"


_BEGIN = r"(?:^|[,;:?.] ?|\b(?:and|or|so|but|exactly|then) )"
_OPENINGS: tuple[tuple[re.Pattern[str], Value | None], ...] = tuple(
    (re.compile(pattern), kind)
    for pattern, kind in (
        (r"\bhow long\b|\bfor how (?:long|many (?:days|hours|minutes|weeks|months|years))\b", Value.DURATION),
        (r"\bhow (?:often|frequently)\b", Value.FREQUENCY),
        (r"\bhow old\b|\bwhen(?:'s| is| was| were| did| will| has| have| had)\b", Value.DATE),
        (r"\bwhat (?:to do|now|do (?:i|we|you) do)\b", Value.STEPS),
        (r"\bwhat (?:should|must|can|shall) (?:i|we|you|one) do\b", Value.STEPS),
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
#: The word behind an auxiliary verb, "of" or "for" is the thing, or the first word of its name.
_SUBJECT = re.compile(
    r"\b(?:does|do|did|is|are|was|were|has|have|had|will|of|for) (?:the |an? |our |my |its )?([\w./:-]*\w)"
)
_HOW_MUCH = re.compile(r"\bhow (?:much|big|large|high|far|fast) (?:is |are )?([\w-]+)")
_NOUN_END = re.compile(
    r"\b(?:is|are|was|were|do|does|did|has|have|can|of|for|in|on|to|at|by|with|that|must|should|will|would|may|behind"
    r"|from)\b"
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
_FUTURE = re.compile(r"\b(?:will|going to|shall|next|planned for|upcoming|future|tomorrow)\b")
_HOW_MANY = re.compile(r"\bhow (?:many|few) (?:[\w-]+ )??([\w-]+)(?= |\?|$)")
_NUMBER = re.compile(rf"\d+(?:[.,]\d+)?|(?:{AMOUNT}|no|none|both|single)")
_COUNT_FIRST = re.compile(rf"\W*(?:{AMOUNT}) [^\W\d_]", re.IGNORECASE)
#: Words between a number and what it counts.
_COUNT_REACH = 3
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
_HARD = re.compile(rf"\d|^(?:{MONTH}|{WEEKDAY})$")

_ASKING = word_list("taboot_pipelines.retrieval.answering", "asking_words.txt")
#: They say a little: a statement without them may still answer.
_LITTLE = word_list("taboot_pipelines.retrieval.answering", "faint_words.txt")


@dataclass(frozen=True, slots=True)
class Term:
    """A word of the question. ``form``: what it is found by (a stem or a compound); ``parts``: the stems of a
    compound; ``weight``: how much it says; ``missing``: what the coverage of a statement without it
    is multiplied by; ``name``: something in the knowledge base is called that;
    ``unknown``: no document holds it.
    """

    text: str
    form: str
    parts: tuple[str, ...]
    group: str | None
    weight: float
    missing: float
    name: bool
    unknown: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """``values``: the kinds of value, of which one must be carried; ``future``: what is to come is asked;
    ``many``: several things are asked for; ``ours``: the house's own is asked about;
    ``counts``: the stem of what "how many" counts; ``inventory``: which of the house's things are so is
    asked, what no vendor knows; ``compares``: the words that ask for a comparison or a sum, in lower case.
    """

    question: str
    terms: tuple[Term, ...]
    value: Value | None
    future: bool
    many: bool
    ours: bool
    counts: str | None = None
    inventory: bool = False
    compares: str = ""

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
    subjects = frozenset(_SUBJECT.findall(folded))
    unknown = idf(_UNKNOWN)
    asking = set(_ASKING)
    if re.search(r"\b(?:in|since|until|by|before|after|of|last|this) may\b|\bmay \d", folded):
        asking.discard("may")
    if value in (Value.DURATION, Value.FREQUENCY):
        asking |= {"last", "lasts", "lasted", "stay", "stays"}
    elif value is Value.REASON:
        asking |= {"cause", "caused", "causes", "reason"}
    elif value is Value.PLACE:
        asking |= {
            "come",
            "comes",
            "kept",
            "stored",
            "located",
            "found",
            "saved",
            "lie",
            "lies",
            "live",
            "lives",
            "placed",
        }
    found: dict[str, Term] = {}
    for run in words.runs(folded):
        run = run.removesuffix("'s")
        if run in STOP_WORDS or run in asking or (len(run) < 2 and not run.isdigit()):
            continue
        form = words.stem(run)
        if form in found or len(found) >= MAX_TERMS:
            continue
        own = (
            tuple(words.stem(p) for p in words.parts(run) if p not in STOP_WORDS) if not run.isalnum() else ()
        )
        known = [idf(t) for t in analyze(run)[0]]
        weight = min(max(max(known, default=_MAX_WEIGHT), _MIN_WEIGHT), _MAX_WEIGHT)
        if run in _LITTLE:
            weight *= _FAINT
        name = weight >= _MIN_NAME and run in names
        strange = max(known, default=0.0) >= unknown
        missing = 1.0
        if _HARD.search(run):
            missing = _WITHOUT_NUMBER
        elif run in subjects and run not in _LITTLE:
            missing = _WITHOUT_SUBJECT
        elif run in focus and run not in _LITTLE:
            missing = _WITHOUT_FOCUS
        elif strange:
            missing = _WITHOUT_UNKNOWN
        found[form] = Term(run, form, own, words.group(form), weight, missing, name, strange)
    if words.DENIES.search(folded) and value is not Value.YES_NO:
        found[words.DENIAL] = Term("not", words.DENIAL, (), None, _DENIAL_WEIGHT, 1.0, name=False)
    ours = bool(_OURS.search(folded))
    compares = _COMPARES.search(folded)
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
        ours=ours,
        counts=words.stem(many_of[1]) if many_of else None,
        inventory=bool(_INVENTORY.search(folded)) or (ours and value not in _DOCUMENTED),
        compares=compares[0] if compares else "",
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
    for pattern, kind in NOUNS:
        if pattern.search(noun):
            return kind, noun
    return None, noun if which or len(noun.split()) <= _MAX_HEAD else ""


_BYTES = re.compile(r"\b\d+(?:\.\d+)? ?[kmgt]i?b?\b", re.IGNORECASE)
_MEASURED = frozenset({"memori", "ram", "storag", "size", "space"})


def implied(term: Term, value: Value | None, said: str) -> bool:
    """Whether a statement that carries the kind of value thereby says the term."""
    if value is not None and term.form in SAID_BY.get(value, ()):
        return True
    return term.form in _MEASURED and bool(_BYTES.search(said))


def counted(asked: Asked, said: str, above: Collection[str] = ()) -> bool:
    """Whether a statement counts what "how many" asks for: a number stands near it, or begins the statement
    below a heading that names it (``above``: the forms of headings and lead-in).
    """
    if asked.counts is None:
        return True
    if asked.counts in above and _COUNT_FIRST.match(said):
        return True
    runs = words.runs(words.fold(said))
    stems = [[words.stem(p) for p in words.parts(run)] for run in runs]
    at = [i for i, own in enumerate(stems) if asked.counts in own]
    numbers = [i for i, run in enumerate(runs) if _NUMBER.fullmatch(run)]
    return any(abs(i - j) <= _COUNT_REACH for i in at for j in numbers)


def says(asked: Asked, said: str) -> bool:
    """Whether a text carries the kind of value asked for, which the question does not hold itself."""
    return carries(asked.value, said, frozenset(words.runs(words.fold(asked.question))))
