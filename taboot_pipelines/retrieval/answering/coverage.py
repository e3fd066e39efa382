"""How much of a question a statement covers, and what speaks against it as an answer.

A statement *covers* a term of the question where the term, its stem or a synonym stands in it, or in what
belongs to it: what leads in to it, its headings, its document's title and path, its paragraph before it, the
less the further away (:data:`_REACH`). Its coverage is the share of the question's weight (IDF) so covered.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from taboot_pipelines.retrieval.answering import words
from taboot_pipelines.retrieval.answering.answer_types import TOLD, Value, carries, to_come
from taboot_pipelines.retrieval.answering.documents import PassageSpan, ReadDocument, Words
from taboot_pipelines.retrieval.answering.text_query import Term, TextQuery, corrected, counted, implied
from taboot_pipelines.retrieval.sentences import Form, TextStatement

# --- What differs in one word only: sections that stand beside each other (what "Import" says is not said
#     of the export, though the title names both), and things of one kind (hall B, the third pier)

_ORDINAL = r"(?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|\d+(?:st|nd|rd|th))"
#: A number or letter behind what is told apart by it, or an ordinal before.
_BEHIND = re.compile(r"\b([^\W\d_]{3,}) (\d{1,3}|[b-ce-hj-lnp-rv-z])(?![\w.:%-])")
_BEFORE = re.compile(rf"\b({_ORDINAL}) ([^\W\d_]{{3,}})")


def names_another(asked: TextQuery, said: str) -> bool:
    """Whether a text names things of a kind of which the question names one, and that one it does not."""
    wanted = _told_apart(asked.folded, frozenset(t.form for t in asked.terms))
    if not wanted:
        return False
    named = _told_apart(words.fold(said), frozenset(wanted))
    return any(kind in named and not which & named[kind] for kind, which in wanted.items())


def _told_apart(folded: str, kinds: frozenset[str]) -> dict[str, set[str]]:
    """Of each kind of thing what its things are told apart by."""
    found: dict[str, set[str]] = {}
    pairs = [(m[1], m[2]) for m in _BEHIND.finditer(folded)]
    pairs += [(m[2], m[1]) for m in _BEFORE.finditer(folded)]
    for kind, which in pairs:
        form = words.stem(kind)
        if form in kinds:
            found.setdefault(form, set()).add(which)
    return found


def told_elsewhere(asked: TextQuery, document: ReadDocument, number: int) -> frozenset[str]:
    """The forms of the terms that a section beside that of the statement ``number`` is called by, and by
    nothing else, while the statement's own heading does not hold them: what names its document, or stands
    above both, does not say them of it.
    """
    section = document.statements[number].section
    above, _, leaf = section.rpartition(" > ")
    if not leaf:
        return frozenset()
    own = words.forms(leaf)
    found = set()
    for beside, forms in _headings(document).get(above, ()):
        if beside == leaf or beside in above.split(" > "):
            continue
        terms = [t for t in asked.terms if is_in(t, forms)]
        named = {f for t in terms for f in (t.form, t.group, *t.parts)}
        if terms and forms <= named and not any(is_in(t, own) for t in terms):
            found |= {t.form for t in terms}
    return frozenset(found)


def _headings(document: ReadDocument) -> dict[str, list[tuple[str, frozenset[str]]]]:
    """Of each section the headings directly below it, each with its forms."""
    if document.headings is None:
        below: dict[str, list[tuple[str, frozenset[str]]]] = {}
        for s in document.statements:
            if s.form is Form.HEADING:
                below.setdefault(s.section, []).append((s.said, words.forms(s.said)))
        document.headings = below
    return document.headings


def is_in(term: Term, forms: frozenset[str]) -> bool:
    """Whether a term or a synonym of it is among ``forms``."""
    return term.form in forms or (term.group is not None and term.group in forms)


# --- What stands below the heading of a version or a date, as in a list of changes: the heading says since
#     when it is so, and all below it is what came with it

_VERSION = r"(?:v(?:ersion)? ?|release )?\d+(?:\.\d+)+\w*"
_DATE = r"\d{4}-\d\d(?:-\d\d)?"
#: A heading that begins with a version or a date, a name before it or not.
_HEADING = re.compile(rf"\W*(?:[\w-]+ )?(?:{_VERSION}|{_DATE})(?![\w/])", re.IGNORECASE)
_BY = {Value.VERSION: re.compile(r"\d+(?:\.\d+)+"), Value.DATE: re.compile(_DATE)}
_CHANGED = re.compile(r"\b(?:new|news|chang\w+|differ\w*|added|fixed|remov\w+|broke\w*|notes?|highlights)\b")
_DOTTED = re.compile(r"\d+(?:\.\d+)+")


def release_of(section: str) -> str:
    """The innermost heading of ``section`` that begins with a version or a date; empty if there is none."""
    for heading in reversed(section.split(" > ")):
        if _HEADING.match(heading):
            return heading
    return ""


def dated_by(asked: TextQuery, statement: TextStatement) -> str:
    """The heading that says the version or the date that is asked for of what a statement says; empty if it
    is not for a heading to say, or the question holds what it says.
    """
    pattern = _BY.get(asked.value) if asked.value is not None else None
    release = release_of(statement.section) if pattern is not None else ""
    if pattern is None or not release:
        return ""
    told = pattern.search(release)
    known = set(words.runs(asked.folded))
    return release if told and told[0] not in known else ""


def asks_for_changes(asked: TextQuery, statement: TextStatement) -> str:
    """The heading of the version below which a statement stands, if the question asks what came with it."""
    if asked.value is not None or not _CHANGED.search(asked.folded):
        return ""
    release = release_of(statement.section)
    forms = words.forms(release) if release else frozenset()
    dotted = [t.form for t in asked.terms if _DOTTED.fullmatch(t.form)]
    return release if dotted and all(form in forms for form in dotted) else ""


#: How much of a term counts where it stands.
_REACH = {"own": 1.0, "lead": 0.9, "section": 0.85, "named": 0.8, "before": 0.65}
#: What is left of the coverage of a statement that names nobody, where somebody is asked for.
_NOBODY = 0.7
#: What a synonym counts of the word itself.
_SYNONYM = 0.85
#: What the parts of a compound count, where they stand apart.
_PARTS = 0.9
#: What a term counts that the value itself says.
_IMPLIED = 0.8
#: Less than that, and a term is not there.
_STANDS = 0.6
#: Code points of a line of code that is still shown where no command is asked for.
_MAX_CODE = 240
#: The group of what passwords are called.
_SECRET = "~password"
#: A setting that is on or off, an item "label: yes", a cell that says so.
SWITCH = re.compile(
    r"[:=]\s*[\"']?(?:(true|yes|on|enabled|✅)|(?:false|no|off|disabled|❌))[\"']?\s*(?:[;,.].*)?\Z",
    re.IGNORECASE,
)
_COMMANDS = (Value.STEPS, Value.COMMAND)


def of_the_house(asked: TextQuery, places: Sequence[PassageSpan]) -> list[PassageSpan]:
    """The passages that may say which of the house's things are so: no vendor knows that. Where no text among
    them is known to be the house's own, whose it is cannot be told."""
    if not asked.inventory or (asked.ours and not any(p.own and p.text for p in places)):
        return list(places)
    return [p for p in places if p.own]


def as_held(asked: TextQuery, places: Sequence[PassageSpan]) -> TextQuery:
    """The question with words that no document holds as the passages write them."""
    held: set[str] = set()
    texts = []
    for place in places:
        for number in place.document.between(place.start, place.end):
            held |= place.document.words(number).own
            texts.append(place.document.statements[number].said)
    return corrected(asked, frozenset(held), texts)


def coverage(asked: TextQuery, question_runs: frozenset[str], place: PassageSpan, number: int) -> float:
    """The share of the question's weight that a statement and what belongs to it cover, less where the
    property asked about is missing; 0 where something speaks against it, or a name or a number is missing.
    """
    document = place.document
    statement, held = document.statements[number], document.words(number)
    fits = carries(asked.value, _values_of(asked, statement), question_runs)
    dates = statement.form is Form.HEADING and _HEADING.match(statement.said) is not None
    release = statement.said if dates else "" if fits else dated_by(asked, statement)
    fits = fits or bool(release)
    if (not fits and asked.value in TOLD) or _is_another_thing(asked, statement, held):
        return 0.0
    total = covered = own = 0.0
    kept = 1.0
    elsewhere = told_elsewhere(asked, document, number)
    for term in asked.terms:
        reach, itself = _covers(term, held, document.named)
        if term.form in elsewhere:
            reach = itself
        if reach < _IMPLIED and fits and implied(term, asked.value, statement.said):
            reach = _IMPLIED
        total += term.weight
        covered += term.weight * reach
        own += term.weight * itself
        if reach < _STANDS:
            # What a heading dates must be the very thing that is asked for: all below it is of that date.
            if term.name or term.defining or term.form in elsewhere or release:
                return 0.0
            kept = min(kept, term.missing)
    if asked.value is Value.PERSON and not fits:
        kept = min(kept, _NOBODY)
    if not covered or (release and not own) or not _says_more(asked, statement, held):
        return 0.0
    return 1.0 if kept == 1.0 and asks_for_changes(asked, statement) else kept * covered / total


def _is_another_thing(asked: TextQuery, statement: TextStatement, held: Words) -> bool:
    """Whether a statement, by its form or by what it names, is not of the kind that is asked for."""
    said = statement.said
    secret = asked.value is Value.SECRET and not any(
        _stands(t, held.own) for t in asked.terms if t.group == _SECRET
    )
    entry = asked.value not in (Value.DATE, Value.MOMENT, Value.VERSION) and _CHANGE.match(said)
    # A line that only opens a block says nothing, and a long one too much.
    code = statement.form is Form.CODE and asked.value not in _COMMANDS
    unsaid = code and (len(said) > _MAX_CODE or said.rstrip().endswith((":", "{")))
    return bool(
        secret
        or entry
        or unsaid
        or (code and bool(statement.keys) and not _has_key(asked, held))
        or (asked.ordered and statement.ordinal is None and not _SEQUENCE.search(said))
        or not counted(asked, said, held.section | held.lead)
        or (asked.future and not to_come(said))
        or names_another(asked, said)
        or not _holds_what_is_denied(asked, held)
        or not _compared(asked, held)
    )


def _has_key(asked: TextQuery, held: Words) -> bool:
    """Whether a line of configuration holds the property that is asked for, if one is named: the value of
    another key of the same thing is none of it."""
    noun = {words.stem(run) for run in words.runs(asked.noun)}
    named = [t for t in asked.terms if t.form in noun]
    return not named or any(_stands(t, held.own) or _stands(t, held.lead) for t in named)


def _says_more(asked: TextQuery, statement: TextStatement, held: Words) -> bool:
    """Whether a statement says something that the question does not."""
    said = held.own | held.lead if statement.keys else held.own
    news = said - {f for t in asked.terms for f in (t.form, *t.parts)}
    return bool(news) or (asked.value is Value.YES_NO and SWITCH.search(statement.said) is not None)


#: An entry of a list of changes: what was done once, not what is.
_CHANGE = re.compile(r"\W*\d{1,4}[./-]\d{1,2}[./-]\d{2,4}\W*[:–-]")
#: What says in which order things are done, beside a list.
_SEQUENCE = re.compile(r"\b(?:first|then|before|after\w*|followed|finally|last)\b|->|→", re.IGNORECASE)


def _values_of(asked: TextQuery, statement: TextStatement) -> str:
    """Where in a statement a value is looked for: the header of a table's column is no person."""
    if asked.value is Value.PERSON and statement.cells:
        return "; " + "; ".join(cell for _, cell in statement.cells)
    return statement.said


def headed(asked: TextQuery, statement: TextStatement, section: str | None = None) -> bool:
    """Whether the innermost heading (of ``section``, if another than the statement's) asks the same as the
    question: each has the other's words.
    """
    leaf = (statement.section if section is None else section).rsplit(" > ", 1)[-1]
    if not leaf:
        return False
    heading = forms_of(leaf)
    # In a small knowledge base no word says much.
    telling = [t for t in asked.terms if t.weight >= 1.5] or list(asked.terms)
    held = sum(t.weight for t in telling if _stands(t, heading))
    if not telling or held < 0.85 * sum(t.weight for t in telling):
        return False
    meant = {f for t in asked.terms for f in (t.form, t.group, *t.parts)}
    return sum(1 for f in heading if not f.startswith("~") and f not in meant) <= len(telling) / 2


@lru_cache(maxsize=4096)
def forms_of(text: str) -> frozenset[str]:
    """The forms of a heading, of which few are asked for again and again."""
    return words.forms(text)


def _holds_what_is_denied(asked: TextQuery, held: Words) -> bool:
    """Whether a statement denies something, where the things that are not so are asked for: those cannot be
    told from a statement about one that is.
    """
    if not asked.inventory or not any(t.form == words.DENIAL for t in asked.terms):
        return True
    return any(words.DENIAL in said for said in (held.own, held.lead, held.section))


def _compared(asked: TextQuery, held: Words) -> bool:
    """Whether a statement makes the comparison that is asked for: one value among others makes none."""
    if not asked.compares:
        return True
    made = forms_of(asked.compares) or {words.stem(asked.compares)}
    return any(made <= said for said in (held.own, held.lead, held.section))


def _covers(term: Term, held: Words, named: frozenset[str]) -> tuple[float, float]:
    """How well a statement covers a term: with what belongs to it, and by itself."""
    itself = _stands(term, held.own)
    best = itself * _REACH["own"]
    if best < _REACH["own"]:
        best = max(
            best,
            _stands(term, held.lead) * _REACH["lead"],
            _stands(term, held.section) * _REACH["section"],
            _stands(term, named) * _REACH["named"],
            _stands(term, held.before) * _REACH["before"],
        )
    return best, itself


def _stands(term: Term, held: frozenset[str]) -> float:
    if not held:
        return 0.0
    if term.form in held:
        return 1.0
    if term.parts:
        return _PARTS * sum(p in held for p in term.parts) / len(term.parts)
    return _SYNONYM if term.group is not None and term.group in held else 0.0
