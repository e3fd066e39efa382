"""Object stores by URL: how each is opened, how long it is waited for, and its failures in words.

One URL serves two libraries over the same Rust crate (``object_store``): ``obstore`` for blobs, shards and
manifests, and ``deltalake`` for the tables. Their exceptions quote requests with the caller's key and the
server's answer, so only the kind of an error is told, and the original is not chained.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.health import Health, probe
from taboot_pipelines.settings import StorageSettings

if TYPE_CHECKING:
    from obstore.store import ObjectStore

#: URL scheme -> name of the provider in health reports.
SCHEMES = {"s3": "s3", "s3a": "s3", "gs": "gs", "az": "az", "abfs": "az", "abfss": "az", "file": "directory"}
#: Where files can be read and nothing else.
_READABLE = {"https": "http", "http": "http"}
_FORMS = "s3://bucket/prefix, gs://bucket/prefix, az://container/prefix or file:///directory"

#: The codes of S3, GCS and Azure if the bucket does not exist, or the caller is unknown or has no access.
_NO_BUCKET = frozenset({"NoSuchBucket", "ContainerNotFound", "InvalidBucketName"})
_REFUSED = frozenset(
    {
        "AccessDenied",
        "InvalidAccessKeyId",
        "SignatureDoesNotMatch",
        "ExpiredToken",
        "InvalidToken",
        "XAdminUserNotFound",
        "AuthenticationFailed",
        "AuthorizationFailure",
        "RequestTimeTooSkewed",
    }
)
_CODE = re.compile(r"<Code>(\w+)</Code>")
_STATUS = re.compile(r"\b(40[13]) (?:Forbidden|Unauthorized)\b")
#: Marks a failure of the transport in a text, for exceptions whose class does not say so.
_TRANSPORT = re.compile(
    r"Error performing \w+|HTTP error|error sending request|Generic (?:S3|GCS|MicrosoftAzure) error"
)

#: Five retries with these waits take about ten seconds, enough for a server that restarts.
_FIRST_WAIT, _LONGEST_WAIT, _GROWTH = 0.5, 10.0, 3


@dataclass(frozen=True)
class StorageLocation:
    """Where one of ``TABOOT_BLOB_URL``, ``TABOOT_TABLE_URL`` and ``TABOOT_SHARD_URL`` leads.

    Made by :func:`place`.
    """

    setting: str
    url: str
    storage: StorageSettings

    @property
    def backend(self) -> str:
        return {**SCHEMES, **_READABLE}[urlsplit(self.url).scheme]

    @property
    def bucket(self) -> str:
        return urlsplit(self.url).netloc

    @property
    def directory(self) -> Path | None:
        """Return the directory of a ``file://`` URL, which is used like the default directory; else None."""
        return Path(unquote(urlsplit(self.url).path)) if self.backend == "directory" else None

    def store(self, *, retries: int | None = None) -> ObjectStore:
        """Return an ``obstore`` store at the URL's prefix, without a request.

        Raises ``E_CONFIG`` if the provider's own settings lack something.
        """
        from obstore.exceptions import BaseError
        from obstore.store import from_url

        wait, tries = self.storage.timeout_seconds, self.storage.max_retries if retries is None else retries
        access: Any = self._access("endpoint", "region", "access_key_id", "secret_access_key")
        client: Any = {
            "timeout": timedelta(seconds=wait),
            "connect_timeout": timedelta(seconds=min(wait, 5)),
            "allow_http": self._plain_http,
        }
        retry: Any = {
            "max_retries": tries,
            "retry_timeout": timedelta(seconds=wait * (tries + 1)),
            "backoff": {
                "init_backoff": timedelta(seconds=_FIRST_WAIT),
                "max_backoff": timedelta(seconds=_LONGEST_WAIT),
                "base": _GROWTH,
            },
        }
        try:
            store: ObjectStore = from_url(self.url, client_options=client, retry_config=retry, **access)
        except (BaseError, ValueError, OSError):
            raise TabootError(
                "E_CONFIG",
                f"{self.setting} cannot be opened: the provider's own settings are missing or wrong.",
                setting=self.setting,
                remedy=(
                    "Set the provider's variables, such as AWS_…, GOOGLE_… or AZURE_STORAGE_ACCOUNT_NAME, or"
                    " TABOOT_STORAGE__…."
                ),
            ) from None
        return store

    def delta_options(self) -> dict[str, str]:
        """Return ``storage_options`` of ``deltalake``: the same access, and commits by conditional writes."""
        wait, tries = self.storage.timeout_seconds, self.storage.max_retries
        options = {
            "timeout": f"{wait:g}s",
            "connect_timeout": f"{min(wait, 5):g}s",
            "max_retries": str(tries),
            "retry_timeout": f"{wait * (tries + 1):g}s",
            "backoff_config.init_backoff": f"{_FIRST_WAIT:g}s",
            "backoff_config.max_backoff": f"{_LONGEST_WAIT:g}s",
            "backoff_config.base": str(_GROWTH),
            "allow_http": str(self._plain_http).lower(),
        }
        if self.backend == "s3":
            options |= {"aws_conditional_put": "etag"}
        return options | self._access(
            "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"
        )

    def _access(self, endpoint: str, region: str, key: str, secret: str) -> dict[str, str]:
        """Return the settings for S3 under the given names.

        What is unset is left to the provider's environment.
        """
        if self.backend != "s3":
            return {}
        given = self.storage
        values = {
            endpoint: given.endpoint,
            # Always given: a client without a region asks the cloud's metadata server.
            region: (
                given.region
                or os.environ.get("AWS_REGION")
                or os.environ.get("AWS_DEFAULT_REGION")
                or "us-east-1"
            ),
            key: given.access_key_id.get_secret_value() if given.access_key_id else None,
            secret: given.secret_access_key.get_secret_value() if given.secret_access_key else None,
        }
        return {name: value for name, value in values.items() if value is not None}

    @property
    def _plain_http(self) -> bool:
        if self.backend == "http":
            return self.url.startswith("http:")
        endpoint = (
            self.storage.endpoint
            or os.environ.get("AWS_ENDPOINT_URL_S3")
            or os.environ.get("AWS_ENDPOINT_URL")
            or ""
        )
        return endpoint.startswith("http://")

    @contextlib.contextmanager
    def asked(self, what: str, **details: Any) -> Iterator[None]:
        """Turn what the store raises into ``E_STORAGE``, with ``what`` and the reason in words."""
        from obstore.exceptions import BaseError

        try:
            yield
        except (OSError, BaseError) as error:
            raise self.failure(what, error, **details) from None

    def failure(self, what: str, error: BaseException, **details: Any) -> TabootError:
        """Return ``E_STORAGE`` for an error of the store, without the error's own text."""
        reason, remedy = self._reason(error)
        return TabootError(
            "E_STORAGE",
            f"{what}: {reason}.",
            remedy=remedy,
            setting=self.setting,
            reason=type(error).__name__,
            **details,
        )

    def _reason(self, error: BaseException) -> tuple[str, str | None]:
        code = server_code(error)
        if code in _NO_BUCKET:
            return (
                f"the bucket {self.bucket} of {self.setting} does not exist",
                f"Create the bucket, or correct {self.setting}.",
            )
        if (
            code in _REFUSED
            or type(error).__name__ in {"PermissionDeniedError", "UnauthenticatedError"}
            or _STATUS.search(str(error))
        ):
            return (
                f"the store of {self.setting} refuses the credentials",
                "Correct TABOOT_STORAGE__ACCESS_KEY_ID and its secret, or the rights of their owner.",
            )
        if code == "NotImplemented":
            return (
                f"the store of {self.setting} does not know conditional writes",
                "Use a store that knows If-None-Match and If-Match on PUT.",
            )
        if "HTTP error" in str(error) or isinstance(error, ConnectionError):
            return (
                f"the store of {self.setting} does not answer",
                f"Check that the server of {self.setting} is up and can be reached.",
            )
        return f"the store of {self.setting} failed", None

    def health(self, part: str) -> Health:
        """Check that the bucket answers and grants access, with one request and no retries."""

        def ask() -> tuple[str | None, str]:
            import obstore

            with self.asked(f"The {part} cannot be listed"):
                if self.backend == "http":  # which lists nothing
                    with contextlib.suppress(FileNotFoundError):
                        obstore.head(self.store(retries=0), ".health")
                    return None, ""
                # A prefix that holds nothing: the answer is empty, and proves that address, bucket and
                # permissions are correct.
                next(iter(obstore.list(self.store(retries=0), prefix=".health", chunk_size=1)), None)
            return None, ""

        return probe(part, self.backend, ask)


def place(setting: str, url: str, storage: StorageSettings, *, http: bool = False) -> StorageLocation:
    """Return the place that a setting names; ``http``: it may be a web server, of which is only read.

    Raises ``E_CONFIG``, which names the setting, for anything that is not such a URL.
    """
    try:
        parts = urlsplit(url)
        scheme, host, user = parts.scheme, parts.netloc, parts.username
    except ValueError:
        scheme, host, user = "", "", None
    if scheme not in SCHEMES and not (http and scheme in _READABLE):
        raise TabootError(
            "E_CONFIG",
            f"{setting} is not the URL of an object store.",
            remedy=f"Use {_FORMS}.",
            setting=setting,
        )
    if (user is not None and scheme != "abfss" and scheme != "abfs") or parts.query or parts.fragment:
        raise TabootError(
            "E_CONFIG",
            f"{setting} holds more than a bucket and a prefix.",
            remedy="Give keys as TABOOT_STORAGE__… or in the provider's variables.",
            setting=setting,
        )
    if scheme == "file":
        if host not in ("", "localhost") or not parts.path.startswith("/"):
            raise TabootError(
                "E_CONFIG",
                f"{setting} names no absolute directory.",
                remedy="Use file:///directory.",
                setting=setting,
            )
    elif scheme in _READABLE:
        if not re.fullmatch(r"([A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?", host):
            raise TabootError("E_CONFIG", f"{setting} names no server.", setting=setting)
    elif not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._@-]+", host):
        raise TabootError("E_CONFIG", f"{setting} names no bucket.", remedy=f"Use {_FORMS}.", setting=setting)
    if storage.endpoint is not None and not re.fullmatch(r"https?://[^\s/@?#]+/?", storage.endpoint):
        raise TabootError(
            "E_CONFIG",
            "TABOOT_STORAGE__ENDPOINT is not the address of a server.",
            remedy="Use http://host:port or https://host.",
            setting="TABOOT_STORAGE__ENDPOINT",
        )
    return StorageLocation(setting, url, storage)


def server_code(error: BaseException) -> str | None:
    """Return the error code in the server's answer (XML of S3 and Azure); None if there is none."""
    found = _CODE.search(str(error))
    return found[1] if found else None


def is_absent(error: BaseException) -> bool:
    """Whether an error says that the object does not exist.

    A 404 for an unknown bucket or caller says something else.
    """
    return isinstance(error, FileNotFoundError) and server_code(error) in {None, "NoSuchKey", "BlobNotFound"}


def is_transport(error: BaseException) -> bool:
    """Whether an error of ``deltalake`` is one of the store rather than of the table."""
    return bool(_TRANSPORT.search(str(error)))


def directory_health(part: str, directory: Path) -> Health:
    """Check that a local directory can be written.

    A directory that does not exist yet is well if it can be made, which is done when it is first needed.
    """

    def ask() -> tuple[str | None, str]:
        there = directory
        while not there.exists() and there != there.parent:
            there = there.parent
        if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
            raise TabootError(
                "E_STORAGE",
                f"The directory {there} of the {part} cannot be written.",
                directory=str(directory),
            )
        return None, ""

    return probe(part, "directory", ask)
