"""What is known of port numbers themselves, and what a text says of one."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: Ports beside the one that a program is known by: shells, names, peers of file sharing, discovery. A service
#: that declares only these may well listen on another for its users. From IANA's registry of service names
#: and the documentation of the programs.
SIDE = frozenset(
    {
        *(22, 53, 123, 161, 546, 547, 853, 1900, 2222, 3478, 5349, 5353, 6881, 7359, 21027, 22000, 27036),
        *(51413, 51820),
    }
)
#: Ports of protocols other than HTTP (same registry): nothing that a browser's proxy would be led to.
NOT_HTTP = SIDE | frozenset(
    {
        *(20, 21, 23, 25, 69, 110, 111, 119, 137, 138, 139, 143, 179, 389, 445, 465, 514, 554, 563, 587, 636),
        *(873, 989, 990, 993, 995, 1080, 1194, 1433, 1521, 1883, 1935, 2049, 2181, 3306, 3389, 4222),
        *(5060, 5061),
        *(5222, 5269, 5432, 5671, 5672, 5900, 6379, 6667, 6697, 8333, 8554, 8883, 9042, 9092, 11211, 25565),
        *(19132, 27015, 27017, 30033, 33060, 64738),
    }
)
#: Ports of proxies: behind them a name is served that another service answers.
OF_PROXIES = frozenset({80, 443})
#: A sentence that names one of these speaks of a port for a purpose of its own, or of another time.
_ASIDE = re.compile(
    r"(?i)\b(?:metrics?|prometheus|exporters?|admin\w*|debug\w*|profil\w*|health\w*|ssh|sftp|ftp|grpc|gossip"
    r"|clusters?|peers?|replica\w*|discovery|dlna|console|internal\w*|telemetry|websockets?|webhooks?|smtp|imap"
    r"|ldaps?|mqtt|also|additional\w*|second\w*|another|alternative\w*|was|were|formerly|previous\w*|earlier"
    r"|old|used to|until|before|moved?|change[sd]?|changing|instead|default\w*|optional\w*|example|tests?"
    r"|testing|staging|development|will|planned|should|free|unused|blocked|closed)\b"
)


def is_aside(sentence: str) -> bool:
    """Whether a sentence may speak of another port, or another time, than the one in force."""
    return _ASIDE.search(sentence) is not None


def names_number(text: str, number: int) -> bool:
    """Whether a number stands by itself in a text."""
    return re.search(rf"(?<![\d.]){number}(?!\d|\.\d)", text) is not None


def blank(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """A text with these spans (code points) left blank."""
    for start, end in spans:
        text = text[:start] + " " * (min(end, len(text)) - start) + text[end:]
    return text


def listed(ports: Iterable[int]) -> str:
    """Ports as people list them."""
    *most, last = [str(p) for p in sorted(set(ports))]
    return f"{', '.join(most)} and {last}" if most else last
