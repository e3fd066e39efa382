"""The certificate authorities that TLS trusts: in one file as libcurl wants them, and in Chromium's database.

Chromium has authorities of its own, and on Linux takes others from an NSS database in the user's home. It
gets a home with a database of those that libcurl trusts and certifi does not have: a private authority, or
one of the system's. Chromium verifies by itself, so that names, times and constraints hold for them as for
its own; nothing is told to be ignored.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import certifi

from taboot_pipelines.crawl import nss

_log = logging.getLogger(__name__)
_CERTIFICATE = re.compile(
    rb"-----BEGIN (?:TRUSTED )?CERTIFICATE-----.+?-----END (?:TRUSTED )?CERTIFICATE-----", re.S
)
_NSS_SECONDS = 60.0
#: Where a file is nowhere but in memory. NSS waits for the disk after each certificate.
_MEMORY = "/dev/shm"
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
    found = dict.fromkeys((*_certificates(Path(certifi.where())), *_systems(file, folder)))
    written = tempfile.NamedTemporaryFile(prefix="taboot-authorities-", suffix=".pem")  # noqa: SIM115 - kept
    written.write(b"\n".join(found) + b"\n")
    written.flush()
    # What a cache holds is not always taken down at the end; and a child that ends does not end its parent.
    atexit.register(lambda owner: written.close() if os.getpid() == owner else None, os.getpid())
    return written


def _systems(file: str | None, folder: str | None) -> list[bytes]:
    sources = [Path(file)] if file else []
    if folder and Path(folder).is_dir():
        sources += sorted(p for p in Path(folder).iterdir() if _HASHED.fullmatch(p.name))
    return [certificate for source in sources for certificate in _certificates(source)]


def _certificates(source: Path) -> list[bytes]:
    try:
        return _CERTIFICATE.findall(source.read_bytes())
    except OSError:
        return []


def trusting_home(home: Path) -> bool:
    """Make a home in the empty folder ``home``, in which Chromium trusts what :func:`authorities` has and
    certifi has not; False if that is nothing, or Chromium takes it from elsewhere (it is not Linux), or
    cannot be told, which is logged.
    """
    paths = ssl.get_default_verify_paths()
    known = {*map(_der, _certificates(Path(certifi.where())))}
    # None: with words of OpenSSL's own on what it is trusted for, which Chromium does not know.
    wanted = {*map(_der, _systems(paths.cafile, paths.capath))} - known - {None}
    if not wanted or sys.platform != "linux":
        return False
    memory = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="taboot-authorities-", dir=memory) as folder:
        made = subprocess.run(
            [sys.executable, "-I", nss.__file__, folder],
            input=b"".join(sorted(d for d in wanted if d)),
            capture_output=True,
            timeout=_NSS_SECONDS,
            check=False,
        )
        shutil.copytree(folder, home / ".pki" / "nssdb")
    if made.returncode != 0:
        _log.warning(
            "Chromium is not told of %d authorities of this system: %s",
            len(wanted),
            made.stderr.decode(errors="replace").strip()[-200:],
        )
    return made.returncode == 0


def _der(certificate: bytes) -> bytes | None:
    try:
        data = ssl.PEM_cert_to_DER_cert(certificate.decode())
        return data if list(nss.split(data)) == [data] else None
    except ValueError:
        return None
