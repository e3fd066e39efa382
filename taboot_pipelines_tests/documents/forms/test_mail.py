"""Mails as Markdown: real ones, made ones, and bytes of any kind."""

from __future__ import annotations

import base64
import binascii
import email
import json
import time
from email import policy
from email.message import EmailMessage
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.documents.forms.mail import attached_texts, mail_of
from taboot_pipelines.documents.forms.mail_parts import MAX_DEPTH, MAX_PARTS, Part, read_message
from taboot_pipelines.errors import TabootError
from taboot_pipelines_tests.documents.forms.mails import GMAIL, bytes_of, chunk_texts, parsed

HEAD = "From: Jane Roe <jane@example.org>\r\nTo: ops@example.org\r\nSubject: Disk\r\n"


def plain(body: str, head: str = HEAD) -> bytes:
    return f"{head}\r\n{body}".encode()


# --- real mails ---------------------------------------------------------------------------------------------


def real_mails(data: Path) -> list[Path]:
    return sorted((data / "email" / "mikel-mail").glob("*/*.eml"))


def test_every_real_mail_is_a_document(data):
    mails = real_mails(data)
    assert len(mails) == 53
    for path in mails:
        document = parsed(path.read_bytes())
        assert document.text.startswith("# ")


def test_what_a_real_mail_says_is_read_as_the_standard_library_reads_it(data):
    """Subject, sender and date, wherever the library reads them without a defect."""
    seen = 0
    for path in real_mails(data):
        message = email.message_from_bytes(path.read_bytes(), policy=policy.default)
        document = parsed(path.read_bytes())
        subject = message["subject"]
        if subject is not None and not subject.defects and subject.strip() and "\ufffd" not in subject:
            assert document.title == " ".join(subject.split()), path
            seen += 1
        date = message["date"]
        if date is not None and not date.defects and date.datetime is not None and date.datetime.tzinfo:
            assert document.date == date.datetime, path
            seen += 1
    assert seen > 60


@pytest.mark.parametrize(
    "said", ["John Doe", "Help Desk Team (IT)", "undisclosed recipients", "Ada, Bob Roe"]
)
def test_a_name_without_an_address_keeps_its_words(said: str) -> None:
    assert f": {said}\n" in parsed(f"From: {said}\r\nSubject: x\r\n\r\nBody.\r\n").text


@pytest.mark.parametrize(
    ("name", "title", "said"),
    [
        ("error_emails/bad_encoded_subject.eml", "TEST", "# TEST"),
        ("multi_charset/japanese_iso_2022.eml", "まみむめも", "すみません"),
        ("multi_charset/japanese_shift_jis.eml", "test", "- Date: 2014-05-28"),
        ("error_emails/encoding_madness.eml", None, "Body Text"),
        (
            "plain_emails/raw_email_incorrect_header.eml",
            "Stop adware/spyware once and for all.",
            "2005-02-23",
        ),
        (
            "attachment_emails/attachment_with_base64_encoded_name.eml",
            None,
            "- This is a test.pdf (application/pdf",
        ),
        ("multi_charset/japanese_attachment.eml", None, "- てすと.txt (text/plain, 33 bytes)"),
        ("mime_emails/sig_only_email.eml", None, "application/pgp-signature"),
        ("multipart_report_emails/report_422.eml", None, "- part (message/delivery-status"),
    ],
)
def test_real_mails_that_are_hard_to_read(data, name, title, said):
    document = parsed((data / "email" / "mikel-mail" / name).read_bytes())
    assert title is None or document.title == title
    assert said in document.text


def test_every_message_of_the_gmail_api_is_a_document(data):
    for path in sorted((data / "gmail").glob("*.message.json")):
        document = parsed(path.read_bytes(), GMAIL)
        resource = json.loads(path.read_bytes())
        assert document.metadata["gmail_id"] == resource["id"]
        assert document.metadata["labels"] == ["INBOX"]
        assert document.date is not None
    with pytest.raises(TabootError) as refused:
        parsed((data / "gmail" / "list.json").read_bytes(), GMAIL)
    assert refused.value.code == "E_PARSE"


def test_a_message_of_the_gmail_api_reads_as_the_mail_it_was_made_from(data):
    compared = 0
    for path in sorted((data / "gmail").glob("*.message.json")):
        (source,) = (data / "email" / "mikel-mail").glob(f"*/{path.name.removesuffix('.message.json')}.eml")
        said, stood = parsed(path.read_bytes(), GMAIL), parsed(source.read_bytes())
        assert said.metadata["from"] == stood.metadata["from"]
        assert said.metadata.get("thread") == stood.metadata.get("thread")
        if stood.date is not None:
            assert said.date == stood.date
        own = [line for line in stood.text.split("\n")[5:] if line and not line.startswith(("-", "Attach"))]
        if said.text.isascii() and stood.text.isascii():
            assert all(line in said.text for line in own)
            compared += 1
    assert compared >= 3


# --- what a document says, and where from -------------------------------------------------------------------


def test_head_text_and_attachments():
    message = EmailMessage()
    message["From"] = "Jane Roe <jane@example.org>"
    message["To"] = "ops@example.org, Jörg Müller <joerg@example.org>"
    message["Cc"] = "board@example.org"
    message["Subject"] = "Grüße aus dem Keller"
    message["Date"] = "Mon, 02 Mar 2026 10:00:00 +0100"
    message["Message-ID"] = "<3@example.org>"
    message["In-Reply-To"] = "<2@example.org>"
    message["References"] = "<1@example.org> <2@example.org>"
    message["List-Id"] = "Operations <ops.example.org>"
    message.set_content("The UPS beeps.\n")
    message.add_attachment(b"%PDF-1.4 ...", maintype="application", subtype="pdf", filename="plan.pdf")
    message.add_attachment("a: 1\n", subtype="yaml", filename="compose.yaml")
    document = parsed(bytes(message))
    assert document.text == (
        "# Grüße aus dem Keller\n\n"
        "- From: Jane Roe <jane@example.org>\n"
        "- To: ops@example.org, Jörg Müller <joerg@example.org>\n"
        "- Cc: board@example.org\n"
        "- Date: 2026-03-02 10:00 +0100\n\n"
        "The UPS beeps.\n\n"
        "Attachments:\n\n"
        "- plan.pdf (application/pdf, 12 bytes)\n"
        "- compose.yaml (text/yaml, 5 bytes)\n"
    )
    assert document.title == "Grüße aus dem Keller"
    assert document.metadata == {
        "author": "Jane Roe <jane@example.org>",
        "message_id": "3@example.org",
        "in_reply_to": "2@example.org",
        "references": ["1@example.org", "2@example.org"],
        "thread": "1@example.org",
        "list_id": "ops.example.org",
        "from": ["Jane Roe <jane@example.org>"],
        "to": ["ops@example.org", "Jörg Müller <joerg@example.org>"],
        "cc": ["board@example.org"],
    }
    assert document.date is not None
    assert document.date.isoformat() == "2026-03-02T10:00:00+01:00"


def test_text_that_stands_as_it_is_leads_to_its_own_bytes():
    head = HEAD.replace("Disk", "Disk für Größe")
    blob = plain(
        "One line.\r\nThe größte disk is full.\r\n", f"{head}Content-Type: text/plain; charset=utf-8\r\n"
    )
    document = parsed(blob)
    assert bytes_of(blob, document, "größte disk") == "größte disk".encode()
    assert bytes_of(blob, document, "Disk für") == "Disk für".encode()
    assert bytes_of(blob, document, "jane@example.org") == b"jane@example.org"
    latin = plain("", f"{HEAD}Content-Type: text/plain; charset=iso-8859-1\r\n") + "größte".encode("latin-1")
    assert bytes_of(latin, parsed(latin), "größte") == "größte".encode("latin-1")


def test_quoted_printable_leads_to_its_line_and_base64_to_its_part():
    head = f"{HEAD}Content-Type: text/plain; charset=utf-8\r\n"
    blob = plain(
        "Plain first.\r\nGr=C3=B6=\r\n=C3=9Fe zwei.\r\nLast.\r\n",
        f"{head}Content-Transfer-Encoding: quoted-printable\r\n",
    )
    document = parsed(blob)
    assert bytes_of(blob, document, "Plain first.") == b"Plain first."
    assert bytes_of(blob, document, "Größe") == b"Gr=C3=B6=\r\n=C3=9Fe zwei."
    assert bytes_of(blob, document, "Last.") == b"Last."
    encoded = base64.encodebytes("Größe zwei.\nEnde.\n".encode()).decode()
    blob = plain(encoded, f"{head}Content-Transfer-Encoding: base64\r\n")
    document = parsed(blob)
    assert "\nGröße zwei.\nEnde.\n" in document.text
    assert bytes_of(blob, document, "zwei") == encoded.encode()


def test_html_is_read_where_there_is_no_text_and_leads_to_its_bytes():
    html = "<html><body><h2>Outage</h2><p>The <b>router</b> is down.</p><ul><li>db</li></ul></body></html>"
    for encoding in ("7bit", "quoted-printable", "base64"):
        message = EmailMessage()
        message["Subject"] = "Outage"
        message.set_content(
            html + "\n<p>Zürich</p>\n", subtype="html", cte=encoding if encoding != "7bit" else "8bit"
        )
        blob = bytes(message)
        document = parsed(blob)
        assert "\n## Outage\n\nThe router is down.\n\n- db\n" in document.text
        said = bytes_of(blob, document, "The router is down.")
        body = blob[blob.index(b"\n\n") + 2 :]
        if encoding == "7bit":
            assert said == b"<p>The <b>router</b> is down.</p>"
        elif encoding == "quoted-printable":
            assert b"router" in said
            assert len(said) < len(body)
        else:
            assert said.strip() == body.strip()
        message.add_alternative("ignored", subtype="html")


def test_the_plain_text_of_alternatives_is_taken_unless_it_is_blank():
    message = EmailMessage()
    message["Subject"] = "Two forms"
    message.set_content("The plain one.\n")
    message.add_alternative("<p>The rich one.</p>", subtype="html")
    text = parsed(bytes(message)).text
    assert "The plain one." in text
    assert "rich" not in text
    message = EmailMessage()
    message["Subject"] = "Two forms"
    message.set_content(" \n")
    message.add_alternative("<p>The rich one.</p>", subtype="html")
    assert "The rich one." in parsed(bytes(message)).text


def test_flowed_paragraphs_are_joined():
    head = f"{HEAD}Content-Type: text/plain; format=flowed; delsp=no\r\n"
    blob = plain("One paragraph \r\nof two lines.\r\n From here on stuffed.\r\n-- \r\nJane\r\n", head)
    document = parsed(blob)
    assert "\nOne paragraph of two lines.\nFrom here on stuffed.\n\\-- \nJane\n" in document.text
    assert bytes_of(blob, document, "of two lines.") == b"of two lines."
    blob = plain("Ein lan \r\nges Wort.\r\n", head.replace("delsp=no", "DelSp=Yes"))
    assert "\nEin langes Wort.\n" in parsed(blob).text


@pytest.mark.parametrize(
    ("declared", "written", "read"),
    [
        ("X-UNKNOWN", "Größe".encode(), "Größe"),
        ("us-ascii", "Größe".encode(), "Größe"),
        ("us-ascii", "Größe".encode("latin-1"), "Größe"),
        ("gb2312", "镕".encode("gbk"), "镕"),
        ("iso-2022-jp", "設定".encode("iso-2022-jp"), "設定"),
        ("utf-8", "Größe, Länge, Höhe".encode() + b" \xff", "Größe, Länge, Höhe \ufffd"),
        ("utf-16", "Größe".encode("utf-16"), "Größe"),
        ("utf-7", b"Gr+APYA3w-e", "Größe"),
    ],
)
def test_charsets_are_repaired(declared, written, read):
    blob = plain("", f"{HEAD}Content-Type: text/plain; charset={declared}\r\n") + written
    assert f"\n{read}" in parsed(blob).text


@pytest.mark.parametrize(
    ("field", "read"),
    [
        ("=?utf-8?q?Gr=C3=B6=C3=9Fe?=", "Größe"),
        ("=?utf-8?b?R3LDtg==?= =?utf-8?b?w59l?=", "Größe"),
        # A character that two words share.
        ("=?utf-8?q?Gr=C3?= =?utf-8?q?=B6=C3=9Fe?=", "Größe"),
        ("=?utf-8?b?R3LDtsOfZ?=", "Größ"),
        ("=?nonsense?q?Disk?=", "Disk"),
        ("=?utf-8?q?Disk", "=?utf-8?q?Disk"),
        ("Re: =?iso-8859-1?Q?Gr=F6=DFe?= now", "Re: Größe now"),
    ],
)
def test_encoded_words_are_read_as_far_as_they_go(field, read):
    assert parsed(f"Subject: {field}\n\nx\n").title == read


def test_a_missing_boundary_is_found_and_a_message_without_one_is_text():
    body = "--b1\nContent-Type: text/plain\n\nHello.\n--b1\nContent-Type: application/pdf\n\n%PDF\n--b1--\n"
    text = parsed(f"Subject: s\nContent-Type: multipart/mixed\n\n{body}").text
    assert "\nHello.\n" in text
    assert "- part (application/pdf" in text
    assert "\nHello\n" in parsed("Subject: s\nContent-Type: multipart/mixed; boundary=x\n\nHello\n").text


def test_a_boundary_that_is_declared_wrongly_is_found():
    body = "--real\r\nContent-Type: text/plain\r\nContent-Transfer-Encoding: base64\r\n\r\naGVsbG8=\r\n"
    mail = plain(f"{body}--real--\r\n", f"{HEAD}Content-Type: multipart/mixed; boundary=other\r\n")
    assert parsed(mail).text.endswith("\n\nhello\n")


@pytest.mark.parametrize(
    ("field", "shown"),
    [
        (b"=?utf-8?Q?M=C3=BCller,_J?= <m@example.org>", "- From: Müller, J <m@example.org>"),
        (b'"=?utf-8?Q?M=C3=BCller,_J?=" <m@example.org>', "- From: Müller, J <m@example.org>"),
        (b"=?utf-8?Q?a@b=2Ec_(x);?= <m@example.org>", "- From: a@b.c (x); <m@example.org>"),
        ("山田 <y@example.org>".encode("iso2022_jp"), "- From: 山田 <y@example.org>"),
        ("Müller <m@example.org>".encode("latin-1"), "- From: Müller <m@example.org>"),
    ],
)
def test_people_are_named_as_they_write_themselves(field, shown):
    assert f"\n{shown}\n" in parsed(b"From: " + field + b"\r\nSubject: s\r\n\r\nx\r\n").text


def test_white_space_behind_a_soft_line_break_is_nothing():
    head = f"{HEAD}Content-Transfer-Encoding: quoted-printable\r\n"
    assert parsed(plain("one =  \r\nline =\t \r\nonly = 1\r\n", head)).text.endswith(
        "\n\none line only = 1\n"
    )


def yenc(data: bytes) -> bytes:
    out = bytearray()
    for byte in data:
        code = (byte + 42) & 255
        out += bytes((61, (code + 64) & 255)) if code in (0, 10, 13, 61) else bytes((code,))
        if len(out) % 130 > 127:
            out += b"\n"
    return bytes(out)


def test_files_in_the_text_are_attached_to_it():
    """As programs wrote them before MIME. What only begins like one is text."""
    table = bytes(range(256)) * 3
    lines = [binascii.b2a_uu(table[at : at + 45]) for at in range(0, len(table), 45)]
    mail = (
        plain("see here\r\n").replace(b"\r\n", b"\n")
        + b"begin 644 notes.txt\n#0V%T\n`\nend\nand\nbegin 755 ../a.bin\n"
        + b"".join(lines)
        + b"`\nend\n=ybegin line=128 size=768 name=y.bin\n"
        + yenc(table)
        + b"\n=yend size=768\nbegin 644 is how one begins\nend of text\n"
    )
    document = parsed(mail)
    assert (
        "\n\nsee here\n\nand\n\nbegin 644 is how one begins\nend of text\n\nAttachments:\n" in document.text
    )
    assert "- notes.txt (application/octet-stream, 3 bytes)\n" in document.text
    assert "- y.bin (application/octet-stream, 768 bytes)\n" in document.text
    assert [(a.name, a.data) for a in attached_texts(mail, "message/rfc822")] == [("1-notes.txt", b"Cat")]
    files = {part.name: part.content(mail) for part in mail_of(mail).root.walk() if part.name}
    assert files == {"notes.txt": b"Cat", ".._a.bin": table, "y.bin": table}


def der(tag: int, *content: bytes) -> bytes:
    data = b"".join(content)
    size = len(data)
    if size < 128:
        return bytes((tag, size)) + data
    length = size.to_bytes(4, "big")
    return bytes((tag, 0x84)) + length + data


def ber(tag: int, *content: bytes) -> bytes:
    return bytes((tag, 0x80)) + b"".join(content) + b"\0\0"


def signed_data(entity: bytes, *, indefinite: bool) -> bytes:
    """A ``SignedData`` without signers, in DER or as programs write that stream."""
    wrap = ber if indefinite else der
    half = len(entity) // 2
    octets = ber(0x24, der(4, entity[:half]), der(4, entity[half:])) if indefinite else der(4, entity)
    content = wrap(0x30, bytes.fromhex("06092a864886f70d010701"), wrap(0xA0, octets))
    signed = wrap(0x30, b"\x02\x01\x01", der(0x31), content, der(0x31))
    return wrap(0x30, bytes.fromhex("06092a864886f70d010702"), wrap(0xA0, signed))


def sealed(data: bytes, kind: str) -> bytes:
    head = f"{HEAD}Content-Type: application/pkcs7-mime; smime-type={kind}; name=smime.p7m\r\n"
    return plain(base64.encodebytes(data).decode(), f"{head}Content-Transfer-Encoding: base64\r\n")


@pytest.mark.parametrize("indefinite", [False, True])
def test_what_is_signed_is_read(indefinite):
    entity = (
        b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nThe disk is full.\r\n--b\r\n"
        b"Content-Type: text/plain; name=df.txt\r\n\r\n/dev/sda 100%\r\n--b--\r\n"
    )
    mail = sealed(signed_data(entity, indefinite=indefinite), "signed-data")
    document = parsed(mail)
    assert "\n\nThe disk is full.\n\nAttachments:\n\n- df.txt (text/plain, 13 bytes)\n" in document.text
    assert "encrypted" not in document.text
    assert [a.data for a in attached_texts(mail, "message/rfc822")] == [b"/dev/sda 100%"]
    twice = sealed(
        signed_data(sealed(signed_data(b"\r\nIn two.\r\n", indefinite=True), ""), indefinite=False), ""
    )
    assert "\n\nIn two.\n" in parsed(twice).text


@given(st.binary(max_size=60), st.booleans(), st.integers(0, 99))
def test_a_damaged_signature_is_a_document(noise, indefinite, at):
    whole = signed_data(b"Content-Type: text/plain\r\n\r\nThe disk is full.\r\n", indefinite=indefinite)
    at %= len(whole)
    assert parsed(sealed(whole[:at] + noise + whole[at + len(noise) :], "signed-data")).title == "Disk"


def test_a_signature_around_text_is_left_out():
    text = (
        "Hi\n-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\nThe disk\n- -- is full.\n"
        "-----BEGIN PGP SIGNATURE-----\n\niQEzBAEBCAAdFiEE\n=abcd\n-----END PGP SIGNATURE-----\nBye\n"
    )
    assert parsed(plain(text)).text.endswith("\n\nHi\nThe disk\n-- is full.\nBye\n")


ARMOR = "-----BEGIN PGP MESSAGE-----\r\n\r\nhQEMA+planted\r\n=abcd\r\n-----END PGP MESSAGE-----\r\n"


@pytest.mark.parametrize(
    ("mail", "by"),
    [
        (sealed(b"\x30\x80\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x03", "enveloped-data"), "S/MIME"),
        (plain(ARMOR), "OpenPGP"),
        (
            plain(
                "--b\r\nContent-Type: application/pgp-encrypted\r\n\r\nVersion: 1\r\n--b\r\n"
                f"Content-Type: application/octet-stream; name=a.asc\r\n\r\n{ARMOR}--b--\r\n",
                f"{HEAD}Content-Type: multipart/encrypted; boundary=b\r\n",
            ),
            "OpenPGP",
        ),
    ],
)
def test_of_what_is_encrypted_the_document_says_so(mail, by):
    document = parsed(mail)
    assert f"\n\nThe text is encrypted ({by}): only its key reads it.\n" in document.text
    assert document.metadata["encrypted"] == by
    assert "planted" not in document.text
    assert document.title == "Disk"


def test_what_is_encrypted_beside_a_text_is_attached_to_it():
    kind = "application/pkcs7-mime; smime-type=enveloped-data"
    body = f"--b\r\n\r\nSee the file.\r\n--b\r\nContent-Type: {kind}\r\n\r\nx\r\n--b--\r\n"
    document = parsed(plain(body, f"{HEAD}Content-Type: multipart/mixed; boundary=b\r\n"))
    assert "encrypted" not in document.text
    assert "See the file.\n\nAttachments:\n\n- part (application/pkcs7-mime, 1 bytes)\n" in document.text


def test_a_text_that_the_gmail_api_only_refers_to_is_asked_for():
    head = [{"name": "Subject", "value": "Log"}]
    payload = {"mimeType": "text/plain", "headers": head, "body": {"attachmentId": "A1", "size": 500_000}}
    resource = json.dumps({"id": "1", "payload": payload}).encode()
    assert "- part.txt (text/plain, 500,000 bytes)\n" in parsed(resource, GMAIL).text
    assert [(a.name, a.reference) for a in attached_texts(resource, GMAIL)] == [("1-part.txt", "A1")]


def test_markup_by_chance_is_shown_as_it_was_written():
    text = parsed(plain("Jane\r\n====\r\n# not a heading\r\n<pre>\r\n```\r\n# code\r\n```\r\nend\r\n")).text
    assert "\\====" in text
    assert "\\# not a heading" in text
    assert "\\<pre>" in text
    assert "\n# code\n" in text


def test_bytes_that_are_no_mail_are_refused():
    for data in (b"hello world\n", b"\x89PNG\r\n\x1a\n....", b"{}", b"key = value\n"):
        with pytest.raises(TabootError) as refused:
            parsed(data)
        assert refused.value.code in ("E_PARSE", "E_BINARY", "E_MIME")


# --- the parts, beside the standard library -----------------------------------------------------------------


@st.composite
def messages(draw, depth: int = 0) -> EmailMessage:
    message = EmailMessage()
    kind = draw(st.integers(0, 3)) if depth < 3 else 0
    if kind < 2:
        lines = draw(
            st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=60))
        )
        message.set_content(
            "\n".join(lines) + "\n", cte=draw(st.sampled_from(["8bit", "base64", "quoted-printable"]))
        )
    elif kind == 2:
        message.set_content(draw(st.binary(max_size=200)), maintype="application", subtype="octet-stream")
    else:
        message["Content-Type"] = f"multipart/{draw(st.sampled_from(['mixed', 'alternative', 'related']))}"
        for _ in range(draw(st.integers(1, 3))):
            message.attach(draw(messages(depth + 1)))
    return message


def tree(part: Part, blob: bytes) -> list[object]:
    if part.parts:
        return [part.kind, *(tree(child, blob) for child in part.parts)]
    return [part.kind, part.content(blob).replace(b"\r\n", b"\n")]


def library_tree(message: email.message.Message) -> list[object]:
    if message.is_multipart():
        return [message.get_content_type(), *map(library_tree, message.get_payload())]
    return [message.get_content_type(), (message.get_payload(decode=True) or b"").replace(b"\r\n", b"\n")]


@settings(deadline=None, max_examples=150)
@given(messages(), st.booleans())
def test_the_parts_are_those_that_the_standard_library_finds(message, crlf):
    message["Subject"] = "s"
    blob = message.as_bytes(policy=policy.SMTP if crlf else policy.default)
    assert tree(read_message(blob), blob) == library_tree(email.message_from_bytes(blob))


# --- anything -----------------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        b"Subject: ",
        b"From: ",
        b"Content-Type: ",
        b"multipart/mixed; boundary=b",
        b"text/html",
        b"text/plain",
        b"message/rfc822",
        b"; charset=",
        b"utf-8",
        b"iso-2022-jp",
        b"Content-Transfer-Encoding: ",
        b"base64",
        b"x-uuencode",
        b"quoted-printable",
        b"\n",
        b"\r\n",
        b"\r",
        b"\n\n",
        b"--b",
        b"--b--",
        b"=?utf-8?b?",
        b"?=",
        b"=",
        b"=C3",
        b"\xc3",
        b"\xff",
        b"\x00",
        b"\x1b$B",
        b"> ",
        b"On Monday, x wrote:",
        b"```",
        b"<p>",
        b"</",
        b"; format=flowed",
        b";",
        b'"',
        b"(",
        b"<a@b>",
        b"Date: ",
        b"Mon, 99 Xxx 99999",
        b"begin 644 x\n",
        b"R3LDtsOfZQ",
        b"References: ",
    ]
)


@settings(deadline=None, max_examples=400)
@given(st.lists(PIECES | st.binary(max_size=8), max_size=60), st.booleans())
def test_any_bytes_are_a_document_or_a_typed_error(pieces, headed):
    blob = (b"Subject: s\n" if headed else b"") + b"".join(pieces)
    attached_texts(blob, "message/rfc822")
    try:
        document = parsed(blob)
    except TabootError as error:
        assert error.code in ("E_PARSE", "E_EMPTY", "E_BINARY", "E_MIME", "E_TOO_LARGE", "E_ENCODING")
        assert "failed with" not in error.message
    else:
        chunk_texts(document)


def test_damaged_real_mails_are_documents_or_typed_errors(data):
    paths = real_mails(data)

    @settings(deadline=None, max_examples=200)
    @given(st.data())
    def damaged(drawn):
        blob = bytearray(drawn.draw(st.sampled_from(paths)).read_bytes())
        for _ in range(drawn.draw(st.integers(1, 6))):
            at, cut = drawn.draw(st.integers(0, len(blob))), drawn.draw(st.integers(0, 40))
            blob[at : at + cut] = drawn.draw(st.binary(max_size=12) | PIECES)
        try:
            parsed(bytes(blob))
        except TabootError as error:
            assert "failed with" not in error.message, error.details

    damaged()


KEYS = ["payload", "headers", "name", "value", "body", "data", "parts", "mimeType", "filename", "raw", "size"]
KEYS += ["attachmentId", "id", "threadId", "labelIds", "internalDate"]
VALUES = st.sampled_from(
    ["Subject", "Content-Type", "multipart/mixed", "message/rfc822", "text/html", "aGk", "é"]
)
RESOURCES = st.recursive(
    st.none() | st.booleans() | st.integers() | VALUES | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=40,
)


@settings(deadline=None, max_examples=150)
@given(RESOURCES, RESOURCES, RESOURCES)
def test_any_resource_is_a_document_or_a_typed_error(headers, parts, rest):
    payload = {"mimeType": "multipart/mixed", "headers": headers, "parts": parts, "body": rest}
    resource = {"id": "1", "payload": payload, **(rest if isinstance(rest, dict) else {})}
    try:
        parsed(json.dumps(resource, ensure_ascii=False), GMAIL)
    except TabootError as error:
        assert "failed with" not in error.message, error.details
    attached_texts(json.dumps(resource).encode(), GMAIL)


def nested(depth: int) -> bytes:
    head = [f"Content-Type: multipart/mixed; boundary=b{k}\n\n--b{k}\n" for k in range(depth)]
    return ("Subject: s\n" + "".join(head) + "\nx\n").encode()


def forwarded(depth: int) -> bytes:
    return b"Subject: s\n" + b"Content-Type: message/rfc822\n\nSubject: s\n" * depth + b"\nx\n"


HOSTILE: dict[str, tuple[bytes, str | None]] = {
    "parts": (
        b"Subject: s\nContent-Type: multipart/mixed; boundary=b\n\n" + b"--b\n\nx\n" * 10_000,
        "E_TOO_LARGE",
    ),
    "as many parts as may be": (
        b"Subject: s\nContent-Type: multipart/mixed; boundary=b\n\n" + b"--b\n\nx\n" * (MAX_PARTS - 1),
        None,
    ),
    "nested multiparts": (nested(500), "E_TOO_LARGE"),
    "nested as deep as may be": (nested(MAX_DEPTH), None),
    "nested messages": (forwarded(500), None),
    "fields": (b"Subject: s\n" + b"X: y\n" * 100_000 + b"\nx\n", "E_TOO_LARGE"),
    "a long field": (b"Subject: s\nX: " + b"y" * 10_000_000 + b"\n\nx\n", "E_TOO_LARGE"),
    "folds": (b"Subject: s\nX: y\n" + b" z\n" * 1_000_000, "E_TOO_LARGE"),
    "encoded words": (b"Subject: " + b"=?utf-8?q?a?= " * 60_000 + b"\n\nx\n", None),
    "comments": (b"Subject: s\nFrom: " + b"(" * 500_000 + b"\n\nx\n", None),
    "addresses": (b"Subject: s\nTo: " + b"a@b.example, " * 70_000 + b"\n\nx\n", None),
    "semicolons": (b'Subject: s\nContent-Type: text/plain; x="' + b'";"' * 200_000 + b"\n\nx\n", None),
    "dashes": (
        b"Subject: s\nContent-Type: multipart/mixed; boundary=b\n\n" + b"-" * 20_000_000,
        "E_TOO_LARGE",
    ),
    "dashed lines": (
        b"Subject: s\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\n" + b"--\n" * 300_000,
        None,
    ),
    "quotes": (b"Subject: s\n\n" + b"> x\n\ny\n" * 20_000, None),
    "fences": (b"Subject: s\n\n" + b"".join(b"`" * n + b"\n" for n in range(3, 1_500)), None),
    "attributions": (b"Subject: s\n\n" + b"From: x\nSent: y\n" * 100_000, None),
    "equal signs": (
        b"Subject: s\nContent-Transfer-Encoding: quoted-printable\n\n" + b"a=\n" * 300_000,
        None,
    ),
    "an attachment": (
        b"Subject: s\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: image/png\n"
        b"Content-Transfer-Encoding: base64\n\n" + b"QUJD" * 20 * 500_000 + b"\n--b--\n",
        None,
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_mails_take_bounded_time(name):
    blob, code = HOSTILE[name]
    begun = time.process_time()  # A busy machine makes it later, not more.
    if code is None:
        parsed(blob)
    else:
        with pytest.raises(TabootError) as refused:
            parsed(blob)
        assert refused.value.code == code
    assert time.process_time() - begun < 20
