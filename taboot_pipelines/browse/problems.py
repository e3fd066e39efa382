"""What goes wrong, as programs are told: a problem object. Source: RFC 9457."""

from __future__ import annotations

from http import HTTPStatus

from starlette.responses import JSONResponse, Response

from taboot_pipelines.errors import TabootError

#: Below it programs ask.
PREFIX = "/api"
PROBLEM = "application/problem+json"


def problem(error: TabootError, status: int | None = None) -> Response:
    """The error as a problem object."""
    status = error.http_status if status is None else status
    told = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": error.message,
        "code": error.code,
        "remedy": error.remedy,
    }
    return JSONResponse(told, status, media_type=PROBLEM)
