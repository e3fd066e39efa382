"""Reaching a server of Elasticsearch or OpenSearch: its certificate, its credentials, and which of the two it
is."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Mapping

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.api import Answer, ApiClient, Limits
from taboot_pipelines.connectors.credentials import header_value, secret_of
from taboot_pipelines.connectors.elasticsearch_entry import ElasticsearchSource
from taboot_pipelines.connectors.elasticsearch_pages import Product
from taboot_pipelines.connectors.files import source_directory
from taboot_pipelines.errors import TabootError


def connected(entry: ElasticsearchSource, access: Access) -> ApiClient:
    """A client of the entry's server. Raises ``E_CREDENTIALS``, ``E_CONFIG``."""
    assert entry.base_url is not None
    headers = _credentials(entry, access)
    return ApiClient(
        "Elasticsearch",
        entry.base_url,
        authorize=(lambda _: headers) if headers else None,
        limits=Limits(max_requests=entry.max_requests, max_wait_seconds=entry.max_wait_seconds),
        tls=_tls(entry, access),
    )


def _credentials(entry: ElasticsearchSource, access: Access) -> Mapping[str, str]:
    if (key := secret_of(access, entry.api_key, entry.api_key_env)) is not None:
        text = header_value(key, "API key of Elasticsearch")
        # A key is handed out as `id:key` and sent in Base64, in which no colon stands.
        sent = base64.b64encode(text.encode()).decode() if ":" in text else text
        return {"authorization": f"ApiKey {sent}"}
    if entry.username is not None:
        password = secret_of(access, entry.password, entry.password_env)
        assert password is not None
        pair = f"{entry.username}:{password.get_secret_value()}".encode()
        return {"authorization": f"Basic {base64.b64encode(pair).decode()}"}
    return {}


def _tls(entry: ElasticsearchSource, access: Access) -> ssl.SSLContext | None:
    if not entry.verify_tls:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    if entry.ca_file is None:
        return None
    path = source_directory(entry.ca_file, access.root)
    try:
        return ssl.create_default_context(cafile=str(path))
    except (OSError, ssl.SSLError):
        raise TabootError(
            "E_CONFIG", f"The ca_file {entry.ca_file} cannot be read as certificates (PEM)."
        ) from None


def info_of(client: ApiClient) -> Answer | None:
    """What the server says of itself; None where the account may not ask."""
    try:
        answer = client.get("/")
    except TabootError as error:
        if error.code == "E_FORBIDDEN":
            return None
        raise
    if answer.gone:
        raise TabootError("E_API", "There is no Elasticsearch at base_url.")
    answer.value()
    return answer


def product_of(info: Answer | None) -> Product | None:
    """Which of the two a server says that it is; None where it does not tell."""
    if info is None:
        return None
    told = info.value().string("version", "distribution")
    return "opensearch" if told == "opensearch" else "elasticsearch"
