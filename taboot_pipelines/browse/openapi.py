"""``/api`` described by OpenAPI 3.1, out of the table of its endpoints.

Source: spec.openapis.org/oas/v3.1.1; its schemas are those of JSON Schema 2020-12, which pydantic writes.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.responses import JSONResponse, Response

from taboot_pipelines.browse.api import ENDPOINTS, EVENTS, AskQuery, Endpoint, TypedQuery
from taboot_pipelines.browse.problems import PREFIX, PROBLEM

if TYPE_CHECKING:
    from starlette.requests import Request

_REF = "#/components/schemas/{model}"
_PROBLEM = {
    "type": "object",
    "description": "A problem (RFC 9457), with the code and the remedy of the error.",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string", "pattern": "^E_[A-Z0-9_]+$"},
        "remedy": {"type": "string"},
    },
    "required": ["type", "title", "status", "detail", "code", "remedy"],
}


async def served(_request: Request) -> Response:
    """The description, as it is served."""
    return JSONResponse(document(), media_type="application/vnd.oai.openapi+json;version=3.1")


@cache
def document() -> dict[str, Any]:
    """The description."""
    results = [(e.result, "serialization") for e in ENDPOINTS]
    bodies = [(e.given, "validation") for e in ENDPOINTS if e.method == "POST"]
    refs, definitions = models_json_schema([*results, *bodies], ref_template=_REF)  # type: ignore[list-item]
    return {
        "openapi": "3.1.1",
        "info": {
            "title": "taboot_pipelines",
            "version": version("taboot-pipelines"),
            "description": "One knowledge base, to be asked and not to be changed.",
        },
        "security": [{"bearer": []}],
        "paths": {
            f"{PREFIX}{e.path}": {
                e.method.lower(): _operation(e, refs[e.result, "serialization"], _body(e, refs))
            }
            for e in ENDPOINTS
        },
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": {**definitions.get("$defs", {}), "Problem": _PROBLEM},
        },
    }


def _body(endpoint: Endpoint, refs: Any) -> dict[str, Any] | None:
    return refs[endpoint.given, "validation"] if endpoint.method == "POST" else None


def _operation(endpoint: Endpoint, result: dict[str, Any], body: dict[str, Any] | None) -> dict[str, Any]:
    content: dict[str, Any] = {"application/json": {"schema": result}}
    if endpoint.given is AskQuery:
        said = "Events `text`, each with a piece of the answer, then `answer` with the whole, or `error`."
        content[EVENTS] = {"schema": {"type": "string", "description": said}}
    problems = {PROBLEM: {"schema": {"$ref": _REF.format(model="Problem")}}}
    made: dict[str, Any] = {
        "operationId": "_".join(
            [endpoint.method.lower(), *endpoint.path.replace("{", "").replace("}", "").split("/")[1:]]
        ),
        "summary": endpoint.summary,
        "responses": {
            "200": {"description": "What was found.", "content": content},
            "default": {"description": "What went wrong.", "content": problems},
        },
    }
    if body is not None:
        made["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    else:
        made["parameters"] = list(_parameters(endpoint.given, endpoint.path))
    return made


def _parameters(given: type[BaseModel], path: str) -> Any:
    schema = given.model_json_schema()
    for name, field in schema.get("properties", {}).items():
        told = {k: v for k, v in field.items() if k not in ("title", "description")}
        inside = f"{{{name}}}" in path
        yield {
            "name": name,
            "in": "path" if inside else "query",
            "required": inside or name in schema.get("required", ()),
            "schema": told,
            **({"description": field["description"]} if "description" in field else {}),
        }
    if given is TypedQuery:
        yield {
            "name": "parameters",
            "in": "query",
            "description": "The parameters of the typed query, under their own names.",
            "schema": {"type": "object", "additionalProperties": {"type": "string"}},
        }
