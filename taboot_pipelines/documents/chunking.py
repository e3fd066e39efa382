"""Documents to chunks that follow their structure, within the limits of one pinned tokenizer (rules
``offsets-carried`` and ``one-chunking``).

A document is a row of *pieces* (a line; a sentence or words of a long one), each with its tokens and with how
good a place its start is to cut. Token counts add up at the ends of lines and sentences, so a chunk's size is
a difference of two prefix sums and packing is a search for the best cut in a window. A chunk with finer
pieces is counted again as it came out.

The rules, the stronger first:

1. A chunk has at most ``content_tokens`` tokens (and :data:`CHARS_PER_TOKEN` code points a token: 10,000
   letters in a row are one unknown token to BERT), so that no embedder with that limit ever cuts one off.
2. It has at least ``min_tokens``, unless the document is smaller, or the limit in code points cuts first.
3. Code blocks, tables and rows that fit are whole in a chunk. Where what comes before is too small for a
   chunk of its own, that one takes in the beginning of the block, which the next chunk repeats.
4. A new chunk begins at a heading; a heading stays with what follows.
5. Otherwise the cut is the best that the window offers, the last of equals. Where it parts a block, or two
   paragraphs of one section, the neighbours share up to ``overlap_tokens``; code that an empty line parts
   shares nothing.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate, pairwise

from taboot_pipelines.documents.blocks import (
    Cut,
    Kind,
    Outline,
    scan_asciidoc,
    scan_code,
    scan_markdown,
    scan_records,
    scan_restructured,
)
from taboot_pipelines.documents.forms import own_text
from taboot_pipelines.documents.mime import reads_as
from taboot_pipelines.documents.tokens import TOKENIZER, TOKENIZER_SHA256
from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.model.records import Chunk, ContentType
from taboot_pipelines.packaged import word_list
from taboot_pipelines.settings import ChunkingSettings

CHUNKER_VERSION = "3"

#: How many code points a chunk may have for each token it may have.
CHARS_PER_TOKEN = 16

_PROSE_TYPES = word_list("taboot_pipelines.documents", "prose_types.txt")
_SCANNERS: Mapping[str, Callable[[list[str]], Outline]] = {
    "text/x-rst": scan_restructured,
    "text/asciidoc": scan_asciidoc,
    "text/csv": scan_records,
}
_CONTENT: dict[Kind, ContentType] = {
    Kind.PROSE: "prose",
    Kind.CODE: "code",
    Kind.TABLE: "table",
    Kind.LIST: "list",
    Kind.HEADING: "prose",
}

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_SENTENCE = re.compile(r"(?<=[.!?])[ \t]+")
_WORD = re.compile(r"\S+\s*")
_LETTERS = re.compile(r"[0-9A-Za-z]+")
#: Code points of a piece of text without white space, and of one that holds nothing but letters and digits:
#: with more than 100 of them BERT sees one unknown token (max_input_chars_per_word).
_GRAIN = 64
_STRETCH = 512
#: Running text is cut no finer for want of overlap.
_FINEST = 16
#: A grapheme cluster of more marks than this may be cut.
_MAX_MARKS = 32


class Chunker:
    """Cuts documents into chunks. Safe to share among threads. ``fingerprint`` stands for everything that a
    chunk set depends on."""

    def __init__(self, settings: ChunkingSettings) -> None:
        self._limit = settings.content_tokens
        self._chars = self._limit * CHARS_PER_TOKEN
        # Half a chunk at most: every chunk brings something new, and a small one finds room beside another.
        self._least = min(settings.min_tokens, self._limit // 2)
        self._overlap = min(settings.overlap_tokens, self._limit // 2)
        parts = {
            "chunker": CHUNKER_VERSION,
            "tokenizer": TOKENIZER_SHA256,
            "settings": settings.model_dump(mode="json"),
        }
        self.fingerprint = hashlib.sha256(canonical_json(parts).encode()).hexdigest()

    def chunk(self, text: str, mime: str) -> list[Chunk]:
        """The chunks of a document, in its order: starts and ends ascend, ``text[c.start:c.end] == c.text``
        in code points.

        Every code point that is no white space is in at least one; the history that a mail repeats is in
        none. ``mime`` says whether it is Markdown (also HTML made into it, plain text) or code (anything
        else). A text of white space has none. Raises ``E_ENCODING`` for a lone surrogate.
        """
        mime = mime.split(";", 1)[0].strip().lower()
        text = own_text(text, mime)
        if not text.strip():
            return []
        lines = _lines(text)
        kind_of_text = reads_as(mime)
        fallback = scan_markdown if kind_of_text in _PROSE_TYPES else scan_code
        outline = _SCANNERS.get(kind_of_text, fallback)(lines)
        pieces = _Pieces(lines, outline, self._limit, self._least, self._overlap)
        ranges = self._pack(pieces)
        chunks: list[Chunk] = []
        spans = [_trimmed(text, pieces.at[first], pieces.at[last]) for first, last in ranges]
        for (first, last), (start, end) in zip(ranges, spans, strict=True):
            kind, section = pieces.majority(first, last)
            if pieces.adds_up(first, last):
                tokens = pieces.tokens[last] - pieces.tokens[first]
            else:
                tokens = TOKENIZER.count(text[start:end])
            for a, b, n in self._exact(text, start, end, tokens):
                chunks.append(
                    Chunk(len(chunks), a, b, text[a:b], n, outline.sections[section], _CONTENT[kind])
                )
        return chunks

    # --- packing --------------------------------------------------------------------------------------------

    def _pack(self, p: _Pieces) -> list[tuple[int, int]]:
        """Ranges of pieces, first and last ascending."""
        ranges: list[tuple[int, int]] = []
        start, done, count = 0, 0, len(p.kinds)
        while True:
            while start < count and p.kinds[start] is Kind.BLANK:
                start += 1
            if max(start, done) >= count:
                return ranges
            fit = self._fit(p, start)
            cut = self._cut(p, start, max(done, start), fit)
            while cut < count and p.kinds[cut] is Kind.BLANK:
                cut += 1
            if p.tokens[count] - p.tokens[cut] < self._least and p.at[count] - p.at[cut] <= self._chars:
                if fit == count:
                    cut = count
                elif cut < count:
                    return [*ranges, (start, cut), (self._tail(p, start, cut), count)]
            ranges.append((start, cut))
            start, done = self._next(p, start, cut), cut

    def _fit(self, p: _Pieces, start: int) -> int:
        """The last cut that leaves ``[start, cut)`` within the limits; at least one piece."""
        by_tokens = bisect_right(p.tokens, p.tokens[start] + self._limit, start)
        by_chars = bisect_right(p.at, p.at[start] + self._chars, start)
        return max(start + 1, min(by_tokens, by_chars) - 1)

    def _cut(self, p: _Pieces, start: int, done: int, fit: int) -> int:
        """Where the chunk that begins at ``start`` ends: after ``done``, not after ``fit``."""
        least = max(bisect_left(p.tokens, p.tokens[start] + self._least, start), done + 1)
        if least > fit:
            return max(fit, done + 1)
        end = len(p.kinds)
        best, grade = -1, Cut.GLUE
        for k in range(least, min(fit, end - 1) + 1):
            g = p.cuts[k]
            if g >= grade and g > Cut.GLUE and p.whole[k] < 0:
                best, grade = k, g
                if g is Cut.HEADING:
                    return k
        if fit == end:
            return end
        if best >= 0:
            return best
        # All that is left parts a block which would fit: it begins here and is whole in the next chunk.
        return least if p.whole[least] > start else fit

    def _next(self, p: _Pieces, start: int, cut: int) -> int:
        """Where the chunk after ``[start, cut)`` begins: at the cut, or before it by what the two share."""
        if cut >= len(p.kinds):
            return cut
        if p.whole[cut] > start:
            return p.whole[cut]
        if p.cuts[cut] >= (Cut.MAJOR if p.kinds[cut] is Kind.CODE else Cut.STATEMENT):
            flowing = p.kinds[cut] is Kind.PROSE and p.cuts[cut] is Cut.BLOCK
            if not flowing or p.section[cut] != p.section[cut - 1]:
                return cut
            floor = cut
            while (
                floor > start + 1
                and p.kinds[floor - 1] in (Kind.PROSE, Kind.BLANK)
                and p.section[floor - 1] == p.section[cut]
            ):
                floor -= 1
        else:
            floor = max(start + 1, bisect_left(p.block, p.block[cut], 0, cut))
        # What is shared leaves room for the next piece.
        tokens = max(p.tokens[cut] - self._overlap, p.tokens[cut + 1] - self._limit)
        chars = max(p.at[cut] - self._overlap * CHARS_PER_TOKEN, p.at[cut + 1] - self._chars)
        first = max(floor, bisect_left(p.tokens, tokens, 0, cut), bisect_left(p.at, chars, 0, cut))
        open_to = [k for k in range(first, cut) if p.whole[k] < 0 and p.kinds[k] is not Kind.BLANK]
        # The best beginning there is, the first of equals, which shares most.
        return max(open_to, key=p.cuts.__getitem__, default=cut)

    def _tail(self, p: _Pieces, start: int, cut: int) -> int:
        """Where the last chunk begins if too little is left after ``cut``: as far back as makes it large
        enough, to the beginning of a block that it would part."""
        end = len(p.kinds)
        back = bisect_right(p.tokens, p.tokens[end] - self._least, start, cut + 1) - 1
        back = max(back, start + 1)
        whole = p.whole[back]
        if (
            whole > start
            and p.tokens[end] - p.tokens[whole] <= self._limit
            and p.at[end] - p.at[whole] <= self._chars
        ):
            return whole
        return max(back, bisect_left(p.at, p.at[end] - self._chars, 0, cut))

    def _exact(self, text: str, start: int, end: int, tokens: int) -> Iterator[tuple[int, int, int]]:
        """The span with its tokens, halved while it exceeds the limit (only where counts do not add up can
        it)."""
        todo = [(start, end, tokens)]
        while todo:
            a, b, n = todo.pop()
            if a == b:
                continue
            if n <= self._limit or b - a == 1:
                yield a, b, n
                continue
            middle = _whole_character(text, (a + b) // 2, a)
            for left, right in ((middle, b), (a, middle)):
                left, right = _trimmed(text, left, right)
                todo.append((left, right, TOKENIZER.count(text[left:right])))


class _Pieces:
    """The document as a row of pieces. ``at`` (code points) and ``tokens`` are prefix sums, so they have one
    entry more than there are pieces.

    ``whole[k]`` is the first piece of the code block, table or row which fits a chunk and which a cut before
    ``k`` would part, -1 if there is none.
    """

    def __init__(self, lines: list[str], outline: Outline, limit: int, least: int, overlap: int) -> None:
        # A larger piece could leave its predecessor too small; running text is cut so fine that neighbours
        # can share some.
        coarse, fine = limit - least, min(max(overlap, _FINEST), limit - least)
        longest = coarse * CHARS_PER_TOKEN // 2
        counts = TOKENIZER.count_many(lines)
        lengths: list[int] = []
        self.sizes: list[int] = []
        self.cuts: list[Cut] = []
        self.kinds: list[Kind] = []
        self.section: list[int] = []
        self.block: list[int] = []
        #: Pieces that begin inside a sentence or a word, ascending.
        self._fine: list[int] = []
        begins: list[int] = []
        rows: list[tuple[int, int]] = []
        done = 0
        for i in [
            k
            for k, (n, line) in enumerate(zip(counts, lines, strict=True))
            if n > fine or len(line) > longest
        ] + [len(lines)]:
            # Up to the next long line, each is one piece.
            begins += range(len(self.sizes), len(self.sizes) + i - done)
            self.sizes += counts[done:i]
            lengths += map(len, lines[done:i])
            self.cuts += outline.cuts[done:i]
            self.kinds += outline.kinds[done:i]
            self.section += outline.section[done:i]
            self.block += outline.block[done:i]
            done = i
            if i == len(lines):
                break
            kind = outline.kinds[i]
            flowing = kind is Kind.PROSE or kind is Kind.LIST
            if kind is Kind.BLANK or not (flowing or counts[i] > coarse or len(lines[i]) > longest):
                continue
            begin = len(self.sizes)
            begins.append(begin)
            for length, tokens, cut in _split(lines[i], fine if flowing else coarse, coarse, flowing):
                lengths.append(length)
                self.sizes.append(tokens)
                self.cuts.append(cut)
            parts = len(self.sizes) - begin
            self._fine += [k for k in range(begin, begin + parts) if self.cuts[k] is Cut.WORD]
            self.cuts[begin] = outline.cuts[i]
            self.kinds += [kind] * parts
            self.section += [outline.section[i]] * parts
            self.block += [outline.block[i]] * parts
            if not flowing:
                rows.append((begin, begin + parts))
            done = i + 1
        begins.append(len(self.sizes))
        self.at = list(accumulate(lengths, initial=0))
        self.tokens = list(accumulate(self.sizes, initial=0))
        self.whole = [-1] * (len(self.sizes) + 1)
        # The outer ones last: they win.
        for first, last in rows + [(begins[a], begins[b]) for a, b in outline.spans]:
            if (
                self.tokens[last] - self.tokens[first] <= limit
                and self.at[last] - self.at[first] <= limit * CHARS_PER_TOKEN
            ):
                self.whole[first + 1 : last] = [first] * (last - first - 1)

    def adds_up(self, first: int, last: int) -> bool:
        """Whether the tokens of the pieces ``[first, last)`` add up: all are whole lines or sentences."""
        return bisect_left(self._fine, first) == bisect_right(self._fine, last)

    def majority(self, first: int, last: int) -> tuple[Kind, int]:
        """The kind and the section that hold most tokens of ``[first, last)``, the first of equals."""
        kinds: dict[Kind, int] = {}
        for kind, size in zip(self.kinds[first:last], self.sizes[first:last], strict=True):
            kinds[kind] = kinds.get(kind, 0) + size
        kinds.pop(Kind.BLANK, None)
        if Kind.HEADING in kinds:
            kinds[Kind.PROSE] = kinds.get(Kind.PROSE, 0) + kinds.pop(Kind.HEADING)
        best = self.section[first]
        if best != self.section[last - 1]:
            sections: dict[int, int] = {}
            for section, size in zip(self.section[first:last], self.sizes[first:last], strict=True):
                sections[section] = sections.get(section, 0) + size
            best = max(sections, key=sections.__getitem__)
        return max(kinds, key=kinds.__getitem__), best


def _lines(text: str) -> list[str]:
    """The lines with their line breaks; joined they are the text. Only LF, CR LF and CR end one: at the other
    controls that ``str.splitlines`` knows, token counts do not add up."""
    if "\r" in text:
        return _LINE.findall(text)
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """The span without blank lines before and white space after it, which may leave nothing."""
    part = text[start:end]
    end = start + len(part.rstrip())
    ink = len(part) - len(part.lstrip())
    # The first line keeps its indentation, which is part of what code says.
    begin = start + max(part.rfind("\n", 0, ink), part.rfind("\r", 0, ink)) + 1
    return min(begin, end), end


def _split(line: str, fine: int, coarse: int, flowing: bool) -> list[tuple[int, int, Cut]]:
    """(code points, tokens, the cut before) of a line's sentences, and of the words of those with more than
    ``fine`` tokens."""
    if not flowing:
        return _words(line, coarse)
    starts = [0, *(m.end() for m in _SENTENCE.finditer(line) if m.end() < len(line)), len(line)]
    sentences = [line[a:b] for a, b in pairwise(starts)]
    parts: list[tuple[int, int, Cut]] = []
    for sentence, count in zip(sentences, TOKENIZER.count_many(sentences), strict=True):
        if count <= fine and len(sentence) <= fine * CHARS_PER_TOKEN:
            parts.append((len(sentence), count, Cut.SENTENCE))
        else:
            words = _words(sentence, coarse)
            parts.append((words[0][0], words[0][1], Cut.SENTENCE))
            parts += words[1:]
    return parts


def _words(text: str, coarse: int) -> list[tuple[int, int, Cut]]:
    starts = [m.start() for m in _WORD.finditer(text)]
    starts[0] = 0
    words = [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]
    parts: list[tuple[int, int, Cut]] = []
    for word, count in zip(words, TOKENIZER.count_many(words), strict=True):
        if count <= coarse and len(word) <= _STRETCH:
            parts.append((len(word), count, Cut.WORD))
        else:
            grains = list(_grains(word, min(_GRAIN, coarse)))
            parts += [
                (len(g), n, Cut.WORD) for g, n in zip(grains, TOKENIZER.count_many(grains), strict=True)
            ]
    return parts


def _grains(word: str, size: int) -> Iterator[str]:
    """Text without white space in parts of about ``size`` code points, cut beside punctuation where there is
    some: counts add up there. A longer stretch of letters is one unknown token and goes in larger parts."""
    start, end = 0, len(word)
    while start < end:
        stop = min(start + size, end)
        if stop < end:
            lowest = start + size // 2
            cut = next(
                (k for k in range(stop, lowest, -1) if not (_lettered(word[k - 1]) and _lettered(word[k]))), 0
            )
            if cut:
                stop = cut
            else:
                stretch = _LETTERS.match(word, lowest, start + _STRETCH)
                run = stretch.end() if stretch else stop
                stop = run
            if stop < end:
                stop = _whole_character(word, stop, start)
        yield word[start:stop]
        start = stop


def _lettered(char: str) -> bool:
    return char.isascii() and char.isalnum()


def _whole_character(text: str, cut: int, start: int) -> int:
    """``cut``, or the nearest place before it (after ``start``) that is not inside a grapheme cluster: before
    a combining mark, a joiner, a modifier, in a joined emoji, in a flag, in CR LF (the common rules of UAX
    29)."""
    for k in range(cut, max(start, cut - _MAX_MARKS), -1):
        after, before = text[k], text[k - 1]
        if after.isascii() and before.isascii():
            if not (after == "\n" and before == "\r"):
                return k
        elif _regional(after) and _regional(before):
            flags = k
            while flags > start and _regional(text[flags - 1]):
                flags -= 1
            return k if (k - flags) % 2 == 0 else (k - 1 if k - 1 > start else cut)
        elif before != "\u200d" and not (
            after in "\u200c\u200d"
            or unicodedata.category(after) in ("Mn", "Mc", "Me")
            or "\U0001f3fb" <= after <= "\U0001f3ff"
        ):
            return k
    return cut


def _regional(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"
