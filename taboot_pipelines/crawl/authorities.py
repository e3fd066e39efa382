"""The certificate authorities that TLS trusts, in one file as libcurl wants them."""

from __future__ import annotations

import re
import ssl
import tempfile
from functools import cache
from pathlib import Path

import certifi

_CERTIFICATE = re.compile(
    rb"-----BEGIN (?:TRUSTED )?CERTIFICATE-----.+?-----END (?:TRUSTED )?CERTIFICATE-----", re.S
)
#: How OpenSSL names the files of a directory of authorities.
_HASHED = re.compile(r"[0-9a-f]{8}\.\d+")


def authorities() -> str:
    """The path of a file with certifi's authorities and the system's. ``SSL_CERT_FILE`` and ``SSL_CERT_DIR``,
    which stand for the system's, add a private one."""
    paths = ssl.get_default_verify_paths()
    return _written(paths.cafile, paths.capath).name


@cache
def _written(file: str | None, folder: str | None) -> tempfile._TemporaryFileWrapper[bytes]:
    """The file, which goes when the process ends."""
    sources = [Path(certifi.where())]
    if file:
        sources.append(Path(file))
    if folder and Path(folder).is_dir():
        sources += sorted(p for p in Path(folder).iterdir() if _HASHED.fullmatch(p.name))
    found: dict[bytes, None] = {}
    for source in sources:
        try:
            found |= dict.fromkeys(_CERTIFICATE.findall(source.read_bytes()))
        except OSError:
            continue
    written = tempfile.NamedTemporaryFile(prefix="taboot-authorities-", suffix=".pem")  # noqa: SIM115 - kept
    written.write(b"\n".join(found) + b"\n")
    written.flush()
    return written
