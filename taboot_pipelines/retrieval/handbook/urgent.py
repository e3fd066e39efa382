"""What a text says is to be read first, by its form: an alert of GitHub, an admonition, or a signal word in
capitals that begins a heading, a paragraph in bold or a label; or what it begins with forbidding, in bold and
in capitals."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from taboot_pipelines.retrieval.handbook.instructions import Excerpt, Text, path_of
from taboot_pipelines.retrieval.sentences import Form

#: Signal words of signs and labels (ANSI Z535.6) and of severities (RFC 5424), the gravest first.
_GRAVE, _SERIOUS = "DANGER|CRITICAL|EMERGENCY|URGENT|STOP|CAUTION", "WARNING"
_SIGNAL = f"{_GRAVE}|{_SERIOUS}"
#: Of Markdown as GitHub, MkDocs and Docusaurus read it, of reStructuredText and of AsciiDoc.
_ADMONITION = rf"(?i:>\s*\[!(?:CAUTION|WARNING)\]|(?:!!!|\?\?\?\+?|:::+|\.\.)\s*(?:{_SIGNAL})\b)"
_LED = rf"(?:#{{1,6}}\s+|\*\*|__)[^\w\n]*(?:{_SIGNAL})(?![\w-])|(?:{_SIGNAL}):\s"
#: What is forbidden, in bold and in capitals: of a step it is one of many, of a text it comes first.
_FORBIDDEN = re.compile(r"(\*\*|__)(?:(?!\1|\n\s*\n).)*?\b(?:NOT|NEVER)\b(?:(?!\n\s*\n).)*?\1", re.DOTALL)
_URGENT = re.compile(rf"\s*(?:{_ADMONITION}|{_LED})")
_IS_GRAVE = re.compile(_GRAVE)
#: What is no more than the mark, whose text follows.
_BARE = re.compile(r"\W*(?:\.\.\s*)?\w+\W*(?:\[[^\]]*\])?")
#: Statements of one such passage.
_SHOWN = 5


def urgent(texts: Sequence[Text]) -> list[Excerpt]:
    """The passages of the texts that are urgent, the gravest first, then those that begin a text."""
    found = [(e, n) for text in texts for n, e in enumerate(_passages(text))]

    def order(at: tuple[Excerpt, int]) -> tuple[bool, int, int]:
        excerpt, number = at
        said = excerpt.text.statements[excerpt.numbers[0]].said
        return _IS_GRAVE.search(said.upper()) is None, number, excerpt.numbers[0]

    return [e for e, _ in sorted(found, key=order)]


def _passages(text: Text) -> Iterator[Excerpt]:
    taken = -1
    for number, s in enumerate(text.statements):
        start = text.text.rfind("\n", 0, s.start) + 1
        if number <= taken or s.form not in (Form.HEADING, Form.SENTENCE, Form.LEAD_IN):
            continue
        begins = all(x.form is Form.HEADING for x in text.statements[:number])
        if not (_URGENT.match(text.text, start) or (begins and _FORBIDDEN.match(text.text, start))):
            continue
        numbers = [number, *_rest(text, number)]
        taken = numbers[-1]
        if len(numbers) > 1 or s.form is not Form.HEADING:
            yield Excerpt(text, path_of(text, number), tuple(numbers))


def _rest(text: Text, number: int) -> Iterator[int]:
    """What follows a marked statement and is of it: its paragraph and its quote, or, where it is a heading
    or no more than the mark, what comes next."""
    first = text.statements[number]
    quoted = text.text.startswith(">", text.text.rfind("\n", 0, first.start) + 1)
    open_ = first.form is Form.HEADING or _BARE.fullmatch(first.said) is not None
    block = first.block
    for following in range(number + 1, min(number + _SHOWN, len(text.statements))):
        s = text.statements[following]
        if s.form is Form.HEADING:
            break
        if open_:
            block, open_ = s.block, False
        between = text.text[text.statements[following - 1].end : s.start]
        in_quote = quoted and re.search(r"\n\s*\n", between) is None
        beside = s.block == block and (s.form is not Form.ITEM or first.form is Form.LEAD_IN)
        if not (beside or in_quote):
            break
        yield following
