"""Word documents and PDFs made for the tests."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from io import BytesIO

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def docx_of(body: str, **parts: bytes) -> bytes:
    """A Word document with this body; ``parts`` by their name in ``word/``, without the ending."""
    made = BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        text = f'<w:document xmlns:w="{W}"><w:body>{body}</w:body></w:document>'
        archive.writestr("word/document.xml", text)
        for name, content in parts.items():
            archive.writestr(f"word/{name}.xml", content)
    return made.getvalue()


def paragraph(text: str) -> str:
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


def pdf_of(pages: Sequence[Sequence[str]], *, title: str = "", password: str | None = None) -> bytes:
    """A PDF of pages of lines."""
    from reportlab.lib.pdfencrypt import StandardEncryption
    from reportlab.pdfgen.canvas import Canvas

    made = BytesIO()
    encrypt = StandardEncryption(password, ownerPassword="owner") if password is not None else None
    canvas = Canvas(made, encrypt=encrypt)
    if title:
        canvas.setTitle(title)
    for lines in pages:
        text = canvas.beginText(60, 780)
        for line in lines:
            text.textLine(line)
        canvas.drawText(text)
        canvas.showPage()
    canvas.save()
    return made.getvalue()
