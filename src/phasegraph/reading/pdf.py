"""A reader for PDF, which creates a section for each page."""

from __future__ import annotations

import io
import logging
from typing import Any

from phasegraph.errors import InvalidInputError, needed
from phasegraph.reading.documents import Document, Section, title_of

NEEDED = "PDF files need pypdf; pip install 'phasegraph[files]'"


def read_pdf(name: str, data: bytes) -> Document:
    """Read the text of a PDF as a document; a scanned page without a text layer gives no text.

    Raises
    ------
    MissingDependencyError
        If pypdf is not installed.
    InvalidInputError
        If the file needs a password, is damaged, or contains no text.
    """
    with needed(NEEDED):
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    logging.getLogger("pypdf").setLevel(logging.ERROR)  # pypdf warns about every small fault of a readable file
    try:
        reader = PdfReader(io.BytesIO(data))
        locked = reader.is_encrypted and not reader.decrypt("")
    except (PyPdfError, ValueError, OSError, NotImplementedError) as error:
        raise InvalidInputError(f"the PDF is damaged: {error}") from error
    except ImportError as error:  # pypdf needs cryptography
        raise InvalidInputError(_LOCKED) from error
    if locked:
        raise InvalidInputError(_LOCKED)
    pages = [Section("", text, page=number) for number, text in enumerate(map(_text, reader.pages), start=1) if text]
    if not pages:
        raise InvalidInputError("the PDF contains no text (scanned pages?): run OCR first, for example ocrmypdf")
    return Document(name, _title(reader) or title_of(name), tuple(pages))


_LOCKED = "the PDF is encrypted: save a copy without a password, for example with qpdf --decrypt IN.pdf OUT.pdf"


def _text(page: Any) -> str:
    """Extract the text of a page; "" if pypdf cannot read the page."""
    try:
        return str(page.extract_text()).strip()
    except Exception:  # noqa: BLE001 - a damaged page can raise any error; the other pages are still read
        return ""


def _title(reader: Any) -> str:
    try:
        return str((reader.metadata or {}).get("/Title") or "").strip()
    except Exception:  # noqa: BLE001 - as above
        return ""
