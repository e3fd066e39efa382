"""What an entry of the type ``gmail`` holds.

The access token of a mailbox: what the entry names, or what its refresh token is exchanged for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from taboot_pipelines.connectors.access import Access, SecretReference, VariableName, header_value, secret_of
from taboot_pipelines.connectors.api.client import Limits
from taboot_pipelines.connectors.api.tokens import AccessToken, Grant
from taboot_pipelines.connectors.entries import BoundedSource, RecordedSource

Text = Annotated[str, StringConstraints(min_length=1, max_length=1000, pattern=r"^[^\r\n\x00]+$")]
Url = Annotated[str, StringConstraints(pattern=r"^https?://[^\s/@?#]+(?:/[^\s?#]*)?$", max_length=500)]


class Imap(BaseModel):
    """A mail server that is asked by IMAP, with a password or the entry's OAuth token. Nothing is changed
    there, not even whether a message was read."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    host: Text = Field(description="The server's name.")
    port: Annotated[int, Field(ge=1, le=65535)] | None = Field(
        None, description="Default: 993, or 143 without `tls: implicit`."
    )
    user: Text = Field(description="The account's name.")
    password: SecretReference | None = Field(None, description="The account's password, as `${NAME}`.")
    password_env: VariableName | None = Field(None, description="The variable that holds the password.")
    auth: Literal["password", "xoauth2", "oauthbearer"] | None = Field(
        None,
        description="How the account signs in. Default: by the password if one is named, else by the entry's"
        " `token` or `refresh_token`, in the way that the server offers.",
    )
    folders: Annotated[list[Text], Field(min_length=1)] = Field(
        default_factory=lambda: ["INBOX"],
        description="Folders by name; `*` stands for any characters, `%` for those of one level.",
    )
    tls: Literal["implicit", "starttls", "none"] = Field(
        "implicit", description="How the connection is kept secret; `none` is for a server on this machine."
    )

    @model_validator(mode="after")
    def _one_password(self) -> Self:
        named = (self.password is not None) + (self.password_env is not None)
        if named > 1 or (self.auth == "password" and not named):
            raise ValueError("names its password by one of `password` and `password_env`")
        if named and self.auth not in (None, "password"):
            raise ValueError(f"signs in by {self.auth}, and so by a token and no password")
        return self

    @property
    def has_password(self) -> bool:
        return self.password is not None or self.password_env is not None


class GmailSource(RecordedSource, BoundedSource):
    """Mail: by the Gmail API, by IMAP (`imap`), or from files (`path`): `.eml`, mbox, Maildir, and recorded
    messages of the Gmail API."""

    type: Literal["gmail"]
    imap: Imap | None = Field(
        None,
        description="A mail server; then the Gmail API is not asked, and a token is one for this server.",
    )
    labels: list[Text] = Field(
        default_factory=list,
        description="Names of Gmail's labels; a message with one of them is taken. Default: all mail but spam"
        " and trash.",
    )
    query: Text | None = Field(
        None, description="A search as in Gmail's search box, such as `list:ops from:ann`, which narrows it."
    )
    client_id: SecretReference | None = Field(None, description="The OAuth client, as `${NAME}`.")
    client_id_env: VariableName | None = Field(None, description="The variable that holds it.")
    client_secret: SecretReference | None = Field(None, description="Its secret, as `${NAME}`.")
    client_secret_env: VariableName | None = Field(None, description="The variable that holds it.")
    refresh_token: SecretReference | None = Field(
        None, description="The account's OAuth refresh token, as `${NAME}`."
    )
    refresh_token_env: VariableName | None = Field(None, description="The variable that holds it.")
    token: SecretReference | None = Field(
        None, description="An OAuth access token, as `${NAME}`, where something else renews it."
    )
    token_env: VariableName | None = Field(None, description="The variable that holds it.")
    user: Text = Field("me", description="The mailbox: the account's own, or an address it was given.")
    base_url: Url = Field("https://gmail.googleapis.com", description="Where the Gmail API answers.")
    token_url: Url = Field(
        "https://oauth2.googleapis.com/token", description="Where refresh tokens are exchanged."
    )

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        refreshed = self.refresh_token is not None or self.refresh_token_env is not None
        given = self.token is not None or self.token_env is not None
        by_token = refreshed or given
        if self.imap is not None and self.path is None and self.imap.has_password == by_token:
            raise ValueError("signs in to `imap` by one of a password and a token (`token`, `refresh_token`)")
        if (self.path is not None) + (self.imap is not None or by_token) != 1:
            raise ValueError("names one of `path`, `imap` and a token of the Gmail API")
        if self.imap is not None and (self.labels or self.query or self.user != "me"):
            raise ValueError("asks by `imap`, where `labels`, `query` and `user` say nothing: name `folders`")
        if refreshed and given:
            raise ValueError("names one of `token` and `refresh_token`")
        if refreshed and self.client_id is None and self.client_id_env is None:
            raise ValueError("names `client_id` with `refresh_token`")
        for name in ("client_id", "client_secret", "refresh_token", "token"):
            if getattr(self, name) is not None and getattr(self, f"{name}_env") is not None:
                raise ValueError(f"names one of `{name}` and `{name}_env`")
        return self


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
