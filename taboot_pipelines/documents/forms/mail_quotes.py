"""What of a mail its writer wrote, and what is quoted from the mails before it.

A reply repeats its thread, so that a search finds the same words once for each answer. The document keeps
them, below the heading :data:`QUOTED`; chunks are made of what stands above it. A message that is forwarded
is what its mail is about, and no history.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from taboot_pipelines.documents.forms.mail_text import Line, Segment, line_of

#: The last section of the document of a mail. No line of a mail is taken for it.
QUOTED = "## Quoted history"

_MARK = re.compile(r" {0,3}>(?!From )")
_PROMPT = re.compile(r" {0,3}>>>(?: |\Z)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_RULE = re.compile(r" {0,3}\\?[_*-]{5,}\s*\Z")
_SPACES = re.compile(r"\s+")
#: What says who wrote the lines that follow, which end with a colon.
_WROTE = re.compile(
    r"\b(?:wrote|writes|said|schrieb|schreef|escribió|escreveu|écrit|scritto|skrev|kirjoitti|napisał|написал"
    r"|пишет)|写道|のメール",
    re.IGNORECASE,
)
_ADDRESS_AND_TIME = re.compile(r"@.*\d{1,2}[:.]\d{2}|\d{1,2}[:.]\d{2}.*@")
_STARTS = re.compile(r"\s*(?:on|am|le|el|il|op|em|den|på|w dniu|dnia)\b", re.IGNORECASE)
_ORIGINAL = re.compile(
    r"\s*(?:\*+\s*)?-{2,}\s*(?:original message|original appointment|reply message|ursprüngliche nachricht|"
    r"originalnachricht|message d['’]origine|message original|mensaje original|mensagem original|"
    r"messaggio originale|oorspronkelijk bericht|originalmeddelande|oprindelig meddelelse|"
    r"исходное сообщение|原始邮件|元のメッセージ)\s*-{2,}\s*\Z",
    re.IGNORECASE,
)
_FORWARDED = re.compile(r"\s*(?:fwd?|wg|tr|rv|enc|vl|vb|i|doorst|转发)\s*[:：]", re.IGNORECASE)
_FORWARD_MARK = re.compile(
    r"\s*(?:-{2,}\s*(?:forwarded message|weitergeleitete nachricht|message transféré|mensaje reenviado)"
    r"|begin forwarded message:|anfang der weitergeleiteten nachricht:)",
    re.IGNORECASE,
)
#: The first of the fields that Outlook repeats above a history, and those that follow it.
_FROM = re.compile(
    r"\s*[*_]*(?:from|von|de|da|van|från|fra|od|de la|lähettäjä|kimden|feladó|от|від|από|发件人|寄件者"
    r"|差出人|보낸 사람)[*_]*\s*[:：]",
    re.IGNORECASE,
)
_FIELDS = re.compile(
    r"\s*[*_]*(?:sent|date|to|cc|subject|gesendet|datum|an|betreff|envoyé|à|objet|date d'envoi|enviado|fecha|"
    r"para|asunto|assunto|enviada em|data|inviato|a|oggetto|verzonden|aan|onderwerp|skickat|till|ämne|"
    r"отправлено|кому|тема|"
    r"sendt|til|emne|wysłano|do|temat|odesláno|komu|předmět|lähetetty|vastaanottaja|aihe|gönderildi|kime|konu"
    r"|elküldve|címzett|tárgy|trimis|către|subiect|надіслано|στάλθηκε|προς|θέμα|보낸 날짜|받는 사람|제목|"
    r"寄件日期|收件者|主旨|发送时间|收件人|主题|送信日時|宛先|件名)[*_]*\s*[:：]",
    re.IGNORECASE,
)
#: So many lines behind ``From:`` have the others; so many say who wrote.
_HEAD_LINES = 6
_WROTE_LINES = 3


@dataclass(frozen=True, slots=True)
class Parted:
    """``own``: what the writer wrote; a line ``[quote 1]`` stands for a quote between two of its parts.
    ``quotes``: the history, in the order of the mail, each line as it stands there."""

    own: list[Line]
    quotes: list[list[Line]]


def part_history(lines: Sequence[Line], subject: str) -> Parted:
    """What is own and what is quoted of a mail's lines. A mail that is nothing but a quote is its own."""
    texts = [line.text for line in lines]
    kinds = _kinds(texts, forwarded=_FORWARDED.match(subject) is not None)
    if True not in kinds or not any(
        text.strip() for text, quoted in zip(texts, kinds, strict=True) if not quoted
    ):
        return Parted(list(lines), [])
    own: list[Line] = []
    quotes: list[list[Line]] = []
    waiting = 0  # the number of a quote that stands between two own parts, if another one comes
    started = False
    previous = False
    for line, quoted in zip(lines, kinds, strict=True):
        if quoted:
            if not previous:
                quotes.append([])
                waiting = len(quotes) if started else 0
            quotes[-1].append(line)
        else:
            if waiting and line.text.strip():
                while not own[-1].text.strip():
                    own.pop()
                own += [line_of(Segment(text, -1, -1)) for text in ("", f"[quote {waiting}]", "")]
                waiting = 0
            started = started or bool(line.text.strip())
            own.append(line)
        previous = quoted
    return Parted(own, quotes)


def _kinds(texts: Sequence[str], *, forwarded: bool) -> list[bool]:
    """Of each line whether it is quoted."""
    quoted = _marked(texts, forwarded=forwarded, fences=True) or _marked(
        texts, forwarded=forwarded, fences=False
    )
    assert quoted is not None
    _join_blanks(texts, quoted)
    _leave_prompts(texts, quoted)
    for i in range(len(quoted)):
        if quoted[i] and (i == 0 or not quoted[i - 1]):
            for k in _who_wrote(texts, i):
                quoted[k] = True
    return quoted


def _marked(texts: Sequence[str], *, forwarded: bool, fences: bool) -> list[bool] | None:
    """Of each line whether it has a mark of quotes, or stands in a history without marks. What a fence
    encloses is code (``fences``); None if one does not close."""
    quoted = [False] * len(texts)
    fence = ""
    last = max((i for i, text in enumerate(texts) if _MARK.match(text)), default=-1)
    for i, text in enumerate(texts):
        if fence:
            if text.strip().startswith(fence) and not text.strip().strip(fence[0]):
                fence = ""
        elif fences and (mark := _FENCE.match(text)) is not None:
            fence = mark[1]
        elif _MARK.match(text):
            quoted[i] = True
        elif _FORWARD_MARK.match(text):
            forwarded = True
        elif not forwarded and (_begins_history(texts, i) or (i > last and _says_who_wrote(text))):
            start = i - (i > 0 and _RULE.match(texts[i - 1]) is not None)
            quoted[start:] = [True] * (len(texts) - start)
            break
    return None if fence else quoted


def _begins_history(texts: Sequence[str], i: int) -> bool:
    text = texts[i]
    if len(text) > 200 or (":" not in text and "：" not in text and "-" not in text):
        return False
    if _ORIGINAL.match(text):
        return True
    if not _FROM.match(text):
        return False
    behind = texts[i + 1 : i + 1 + _HEAD_LINES]
    return sum(1 for line in behind if _FIELDS.match(line[:200])) >= 2


def _says_who_wrote(text: str) -> bool:
    """Whether a line by itself says who wrote what follows, and when."""
    return (
        len(text) < 300
        and text.rstrip().endswith((":", "："))
        and _STARTS.match(text) is not None
        and _WROTE.search(text) is not None
        and _ADDRESS_AND_TIME.search(text) is not None
    )


def _join_blanks(texts: Sequence[str], quoted: list[bool]) -> None:
    """Blank lines between two quoted ones are quoted."""
    last = -2
    for i, is_quoted in enumerate(quoted):
        if is_quoted:
            if last >= 0 and all(not texts[k].strip() for k in range(last + 1, i)):
                quoted[last + 1 : i] = [True] * (i - last - 1)
            last = i
        elif texts[i].strip():
            last = -2


def _leave_prompts(texts: Sequence[str], quoted: list[bool]) -> None:
    """Runs of lines that all begin with ``>>> `` are no quotes: so Python and SMTP's transcripts prompt."""
    start = 0
    while start < len(quoted):
        end = start + 1
        while end < len(quoted) and quoted[end] == quoted[start]:
            end += 1
        if quoted[start] and all(_PROMPT.match(text) or not text.strip() for text in texts[start:end]):
            quoted[start:end] = [False] * (end - start)
        start = end


def _who_wrote(texts: Sequence[str], start: int) -> range:
    """The lines above a quote that say whom it quotes, with the blank lines between."""
    end = start
    while end > 0 and start - end < 2 and not texts[end - 1].strip():
        end -= 1
    if end == 0 or not texts[end - 1].rstrip().endswith((":", "：")):
        return range(0)
    first = end - 1
    while not _STARTS.match(texts[first]) and first > 0 and end - first < _WROTE_LINES:
        if not texts[first - 1].strip():
            break
        first -= 1
    if not _STARTS.match(texts[first]):
        first = end - 1
    said = _SPACES.sub(" ", " ".join(texts[first:end]))[-1_000:]
    known = _WROTE.search(said) or _ADDRESS_AND_TIME.search(said)
    return range(first, start) if known else range(0)
