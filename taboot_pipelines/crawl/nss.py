"""A program that makes the database of certificate authorities which Chromium on Linux reads beside its own.

``python nss.py FOLDER`` takes certificates (DER, one after another) from its standard input and trusts each
for servers: as an authority, and as a server's own. It calls NSS, the library that Chromium itself keeps this
database with, in a process of its own, since NSS has one state for a whole process. Certificates that NSS
cannot read are left out. Exits with 1 if the database cannot be made.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator

# ``certt.h``: what is trusted as it is, and what may say so of others.
_TERMINAL, _TRUSTED, _AUTHORITY, _TRUSTED_AUTHORITY = 1 << 0, 1 << 1, 1 << 3, 1 << 4


class _Trust(ctypes.Structure):
    """``CERTCertTrust``: for servers, for mail, for programs."""

    _fields_ = (
        ("servers", ctypes.c_uint),
        ("mail", ctypes.c_uint),
        ("programs", ctypes.c_uint),
    )


def split(data: bytes) -> Iterator[bytes]:
    """The values of a row of DER (X.690 §8.1), of a definite length each. Raises ``ValueError``."""
    at = 0
    while at < len(data):
        head = data[at : at + 2]
        size = head[1] if len(head) == 2 else 0x80
        begin = at + 2
        if size & 0x80:
            count = size & 0x7F
            size = int.from_bytes(data[begin : begin + count])
            begin += count
            if not 1 <= count <= 4:
                raise ValueError("no length of DER")
        if begin + size > len(data):
            raise ValueError("DER breaks off")
        yield data[at : begin + size]
        at = begin + size


def write(folder: str, certificates: Iterator[bytes]) -> None:
    """Make the database in the empty ``folder``. Raises ``OSError`` without NSS, or if it fails."""
    nss, reading = ctypes.CDLL("libnss3.so"), ctypes.CDLL("libsmime3.so")
    slot_of, default, decode = (
        nss.PK11_GetInternalKeySlot,
        nss.CERT_GetDefaultCertDB,
        reading.CERT_DecodeCertFromPackage,
    )
    for function in (slot_of, default, decode):
        function.restype = ctypes.c_void_p
    if nss.NSS_InitReadWrite(f"sql:{folder}".encode()) != 0:
        raise OSError("NSS does not make a database there")
    slot = ctypes.c_void_p(slot_of())
    if nss.PK11_NeedUserInit(slot) and nss.PK11_InitPin(slot, None, None) != 0:
        raise OSError("NSS does not open the database")
    flags = _TERMINAL | _TRUSTED | _AUTHORITY | _TRUSTED_AUTHORITY
    for number, data in enumerate(certificates):
        found = decode(data, len(data))
        if found is None:
            continue
        certificate = ctypes.c_void_p(found)
        trust = _Trust(flags, 0, 0)
        if (
            nss.PK11_ImportCert(slot, certificate, ctypes.c_ulong(0), b"taboot %d" % number, 0) != 0
            or nss.CERT_ChangeCertTrust(ctypes.c_void_p(default()), certificate, ctypes.byref(trust)) != 0
        ):
            raise OSError("NSS does not take a certificate")
        nss.CERT_DestroyCertificate(certificate)
    nss.PK11_FreeSlot(slot)
    if nss.NSS_Shutdown() != 0:
        raise OSError("NSS does not close the database")


if __name__ == "__main__":
    try:
        write(sys.argv[1], split(sys.stdin.buffer.read()))
    except (OSError, AttributeError, ValueError) as error:
        sys.exit(f"{error}")
