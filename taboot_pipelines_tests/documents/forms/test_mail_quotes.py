"""What a mail quotes stays in its document and is in no chunk."""

from __future__ import annotations

from email.message import EmailMessage

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.documents.forms.mail_quotes import QUOTED
from taboot_pipelines_tests.documents.forms.mails import chunk_texts, parsed

OLD = "the old words about the disk"
NEW = "my new words about the fan"


def mail(body: str, subject: str = "Re: Disk", *, html: bool = False) -> bytes:
    message = EmailMessage()
    message["From"] = "Jane Roe <jane@example.org>"
    message["Subject"] = subject
    message.set_content(body, subtype="html" if html else "plain")
    return bytes(message)


REPLIES = {
    "above": f"{NEW}\n\nOn Mon, 2 Mar 2026 at 10:00, John <john@example.org> wrote:\n> {OLD}\n>\n>> {OLD}\n",
    "below": f"On Mon, 2 Mar 2026, John wrote:\n> {OLD}\n\n{NEW}\n",
    "wrapped": f"{NEW}\n\nOn Mon, 2 Mar 2026 at 10:00, John Doe\n<john@example.org> wrote:\n\n> {OLD}\n",
    "German": f"{NEW}\n\nAm 02.03.2026 um 10:00 schrieb John <john@example.org>:\n> {OLD}\n",
    "French": f"{NEW}\n\nLe lun. 2 mars 2026 à 10:00, John <john@example.org> a écrit :\n> {OLD}\n",
    "Outlook": f"{NEW}\n\n-----Original Message-----\nFrom: J\nSent: x\nTo: Jane\nSubject: Disk\n\n{OLD}\n",
    "Outlook without a mark": f"{NEW}\n\nFrom: John\nSent: Monday\nTo: Jane\nSubject: Disk\n\n{OLD}\n",
    "Outlook in German": f"{NEW}\n\nVon: John\nGesendet: Montag\nAn: Jane\nBetreff: Disk\n\n{OLD}\n",
    "behind a rule": f"{NEW}\n\n{'_' * 32}\nFrom: John\nSent: x\nTo: y\nSubject: z\n\n{OLD}\n",
    "without marks": f"{NEW}\n\nOn Mon, 2 Mar 2026 at 10:00, John <john@example.org> wrote:\n\n{OLD}\n",
    "Outlook in Danish": f"{NEW}\n\nFra: John\nSendt: 2. marts\nTil: Jane\nEmne: Disk\n\n{OLD}\n",
    "Outlook in Polish": f"{NEW}\n\nOd: John\nWysłano: 2 marca\nDo: Jane\nTemat: Disk\n\n{OLD}\n",
    "Outlook in Czech": f"{NEW}\n\nOd: John\nOdesláno: 2. března\nKomu: Jane\nPředmět: Disk\n\n{OLD}\n",
    "Outlook in Finnish": f"{NEW}\n\nLähettäjä: J\nLähetetty: x\nVastaanottaja: y\nAihe: z\n\n{OLD}\n",
    "Outlook in Turkish": f"{NEW}\n\nKimden: J\nGönderildi: x\nKime: y\nKonu: z\n\n{OLD}\n",
    "Outlook in Japanese": f"{NEW}\n\n差出人: J\n送信日時: x\n宛先: y\n件名: z\n\n{OLD}\n",
    "between": f"> {OLD} 1\n\n{NEW}\n\n> {OLD} 2\n> {OLD} 3\n\nand yes\n",
}


@pytest.mark.parametrize("name", REPLIES)
def test_history_is_in_the_document_and_in_no_chunk(name):
    document = parsed(mail(REPLIES[name]))
    own, mark, history = document.text.partition(f"\n{QUOTED}\n")
    assert mark
    assert NEW in own
    assert OLD not in own
    assert "wrote" not in own
    assert "schrieb" not in own
    assert "____" not in own
    assert OLD in history
    assert all(line.startswith((">", "Quote ")) for line in history.split("\n") if line)
    chunks = chunk_texts(document)
    assert any(NEW in chunk for chunk in chunks)
    assert not any(OLD in chunk or QUOTED in chunk for chunk in chunks)


def test_a_quote_between_answers_is_referred_to_in_its_place():
    text = parsed(mail("Hi,\n\n> is it a?\n\nYes.\n\n> or b?\n\nNo.\n\n> bye\n")).text
    assert "Hi,\n\n[quote 1]\n\nYes.\n\n[quote 2]\n\nNo.\n" in text
    assert text.endswith("Quote 1:\n\n> is it a?\n\nQuote 2:\n\n> or b?\n\nQuote 3:\n\n> bye\n")


def test_quotes_in_html_are_history_too():
    gmail = (
        f'<div>{NEW}</div><div class="gmail_quote"><div>On Mon, John &lt;j@example.org&gt; wrote:<br></div>'
        f"<blockquote><p>{OLD}</p><blockquote><p>{OLD}</p></blockquote></blockquote></div>"
    )
    outlook = (
        f"<p>{NEW}</p><div><p><b>From:</b> John<br><b>Sent:</b> Monday<br><b>To:</b> Jane<br>"
        f"<b>Subject:</b> Disk</p></div><p>{OLD}</p>"
    )
    for body in (gmail, outlook):
        document = parsed(mail(body, html=True))
        assert OLD in document.text
        chunks = chunk_texts(document)
        assert any(NEW in chunk for chunk in chunks)
        assert not any(OLD in chunk or "wrote" in chunk for chunk in chunks)


KEPT = {
    "a mail of quotes alone": (f"> {OLD}\n", "Re: Disk"),
    "a forward by its mark": (
        f"{NEW}\n\n---------- Forwarded message ---------\nFrom: John\nDate: x\nTo: y\n\n{OLD}\n",
        "x",
    ),
    "a forward by its subject": (
        f"{NEW}\n\n-----Original Message-----\nFrom: John\nSent: x\nTo: y\n\n{OLD}\n",
        "FW: Disk",
    ),
    "Python": (f"{NEW}\n\n>>> {OLD}\n>>> x\n", "Re: Disk"),
    "code": (f"{NEW}\n\n```\n> {OLD}\n```\n", "Re: Disk"),
    "an answer below what is named": (
        f"On Mon, 2 Mar 2026 at 10:00, John <john@example.org> wrote:\n> x\n\n{OLD}\n",
        "Re: Disk",
    ),
    "who wrote, in prose": (f"{NEW}\n\nOn Monday John wrote:\n\n{OLD}\n", "Re: Disk"),
    "a word": (f"{NEW}\n\nFrom: here on I do not know.\n{OLD}\n", "Re: Disk"),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_is_no_history_is_in_chunks(name):
    body, subject = KEPT[name]
    assert any(OLD in chunk for chunk in chunk_texts(parsed(mail(body, subject))))


def test_a_line_that_looks_like_the_mark_hides_nothing():
    for body, html in (
        (f"a\n{QUOTED}\n{NEW}\n", False),
        (f"<p>a</p><h2>Quoted history</h2><p>{NEW}</p>", True),
    ):
        document = parsed(mail(body, html=html))
        assert any(NEW in chunk for chunk in chunk_texts(document))


def test_a_signature_is_no_heading():
    document = parsed(mail("Regards\nJane\n-- \nJane Roe\n\nA new paragraph.\n"))
    assert "\n\\-- \n" in document.text


LINES = st.lists(
    st.sampled_from(
        ["> a", ">> b", "own", "", "```", "On x wrote:", "From: x", "Sent: y", "To: z", ">>> c", "--"]
    ),
    max_size=20,
)


@given(LINES)
def test_every_line_is_kept_once(lines):
    """What a mail says is in its document, own or quoted, whatever its order there."""
    body = "\n".join(f"{line} {n}" if line.strip("`-") else line for n, line in enumerate(lines))
    text = parsed(mail(f"start\n{body}\n")).text
    for n, line in enumerate(lines):
        if line.strip("`-"):
            assert text.count(f"{line} {n}\n") == 1
