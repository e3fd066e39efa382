"""The access token of a mailbox: what the entry names, or what its refresh token is exchanged for."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.api import AccessToken, Grant, Limits
from taboot_pipelines.connectors.credentials import header_value, secret_of
from taboot_pipelines.connectors.gmail_entry import GmailSource


def token_of(entry: GmailSource, access: Access, limits: Limits) -> Callable[[bool], str]:
    """Gives the access token, and another one where that is said to be refused. Raises ``E_CONFIG`` where a
    secret is not set, and as :meth:`AccessToken.token`."""
    given = secret_of(access, entry.token, entry.token_env)
    if given is not None:
        token = header_value(given, "access token")
        return lambda _: token

    def grant() -> Grant:
        form = {"grant_type": "refresh_token"}
        for name in ("client_id", "client_secret", "refresh_token"):
            secret = secret_of(access, getattr(entry, name), getattr(entry, f"{name}_env"))
            if secret is not None:
                form[name] = secret.get_secret_value().strip()
        return Grant(form)

    service = f"The token service at {urlsplit(entry.token_url).hostname}"
    return AccessToken(service, entry.token_url, grant, limits=limits).token
