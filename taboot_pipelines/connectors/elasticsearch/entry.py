"""The entry of Elasticsearch and OpenSearch in the sources file.

Reaching a server of Elasticsearch or OpenSearch: its certificate, its credentials, and which of the two it
is.
"""

from __future__ import annotations

import base64
import re
import ssl
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from taboot_pipelines.connectors.access import Access, SecretReference, VariableName, header_value, secret_of
from taboot_pipelines.connectors.api.client import ApiClient, Limits
from taboot_pipelines.connectors.elasticsearch.hits import Layout
from taboot_pipelines.connectors.elasticsearch.search import Product
from taboot_pipelines.connectors.entries import BoundedSource, PathText, RecordedSource, unique
from taboot_pipelines.connectors.files import source_directory
from taboot_pipelines.errors import TabootError
from taboot_pipelines.http.answers import Answer

_DURATION = re.compile(r"([1-9][0-9]{0,5})(s|m|h|d|w)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def _duration(value: str) -> str:
    if not _DURATION.fullmatch(value):
        raise ValueError("is not a span such as `15m`, `1h` or `7d`")
    return value


def _index(value: str) -> str:
    if re.search(r"""[\s"\\/<>|?#,]""", value):
        raise ValueError("is not the name or pattern of an index")
    return value


Duration = Annotated[str, AfterValidator(_duration)]
IndexPattern = Annotated[str, StringConstraints(min_length=1, max_length=255), AfterValidator(_index)]
FieldName = Annotated[str, StringConstraints(min_length=1, max_length=500)]


class ElasticsearchSource(RecordedSource, BoundedSource):
    """Hits of Elasticsearch or OpenSearch, such as logs: asked by `base_url`, or recorded answers, pages of
    hits and NDJSON exports in the directory `path`.
    """

    type: Literal["elasticsearch"]
    base_url: Annotated[str, StringConstraints(min_length=8, max_length=2048)] | None = Field(
        None, description="The server, such as `https://es.lan:9200`; it may be private."
    )
    index: Annotated[list[IndexPattern], AfterValidator(unique)] = Field(
        default_factory=list, description="Indices, data streams or patterns (`logs-*`, `-logs-old`)."
    )
    query: dict[str, Any] | None = Field(
        None, description="A clause of the Query DSL that the hits must match; default all."
    )
    esql: Annotated[str, StringConstraints(min_length=1, max_length=20_000)] | None = Field(
        None,
        description="ES|QL in place of `index` and `query`, such as `FROM logs METADATA _index, _id`.",
    )
    sql: Annotated[str, StringConstraints(min_length=1, max_length=20_000)] | None = Field(
        None, description="SQL in place of `index` and `query`, such as `SELECT * FROM logs`."
    )
    fields: Annotated[list[FieldName], AfterValidator(unique)] = Field(
        default_factory=list, description="The fields that are kept, `*` allowed; default all of `_source`."
    )
    time_field: FieldName | None = Field(
        "@timestamp", description="The field with a hit's time; null where hits have none."
    )
    group_by: FieldName | None = Field(
        None, description="Hits with the same value of this field are one document; default each hit is."
    )
    window: Duration = Field(
        "1h", description="How much time a document of `group_by` holds, such as `15m` or `1d`, in UTC."
    )
    lookback: Duration | None = Field(
        "1d",
        description=(
            "Windows that have been over for so long are read again only if the number of their hits or the"
            " sum of their sequence numbers changed; null: everything is read by each run."
        ),
    )
    page_size: Annotated[int, Field(ge=1, le=10_000)] = Field(1000, description="Hits of one answer.")
    tiebreaker: FieldName | None = Field(
        None,
        description=(
            "A field that differs in each hit and can be sorted by, where no point in time can be opened;"
            " default `_id`."
        ),
    )
    cluster: bool = Field(
        True, description="Whether the cluster's nodes and indices are read too; needs the right `monitor`."
    )
    api_key: SecretReference | None = Field(
        None, description="`${NAME}`: the environment variable with the API key (`id:key`, or encoded)."
    )
    api_key_env: VariableName | None = Field(
        None, description="The same by the variable's name alone, such as `ES_API_KEY`."
    )
    username: Annotated[str, StringConstraints(min_length=1, max_length=255, pattern="^[^:]*$")] | None = (
        Field(None, description="The user, where there is no API key.")
    )
    password: SecretReference | None = Field(
        None, description="`${NAME}`: the environment variable with the user's password."
    )
    password_env: VariableName | None = Field(None, description="The same by the variable's name alone.")
    ca_file: PathText | None = Field(
        None, description="A file of certificates (PEM) that the server's is trusted by."
    )
    verify_tls: bool = Field(True, description="Whether the server's certificate is checked.")

    @model_validator(mode="after")
    def _is_whole(self) -> ElasticsearchSource:
        if (self.path is None) == (self.base_url is None):
            raise ValueError("needs either `base_url` or `path`")
        if self.esql is not None and self.sql is not None:
            raise ValueError("has both `esql` and `sql`")
        words = self.esql is not None or self.sql is not None
        if words and (self.index or self.query):
            raise ValueError("has `index` or `query` beside `esql` or `sql`")
        if self.esql is not None and self.time_field is None:
            raise ValueError("needs a `time_field` for `esql`, whose pages go by it")
        if self.base_url is not None and not words and not self.index:
            raise ValueError("needs `index`, `esql` or `sql`")
        if self.username is not None and not (self.password or self.password_env):
            raise ValueError("has a `username` without `password` or `password_env`")
        return self

    @property
    def layout(self) -> Layout:
        """How its hits become items."""
        return Layout(self.time_field, self.group_by, seconds(self.window) * 1000, tuple(self.fields))


def seconds(duration: str) -> int:
    """How long a span such as ``15m`` is."""
    match = _DURATION.fullmatch(duration)
    assert match is not None
    return int(match[1]) * _SECONDS[match[2]]


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
