"""What a host looks like in a text, and what looks like one and is none."""

from __future__ import annotations

import re

from taboot_pipelines.packaged import word_list

PACKAGE = "taboot_pipelines.extraction.tier_a.prose"
HOST_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_")
MAX_HOST = 253
WORD = re.compile(r"[A-Za-z0-9_]")
#: A host of these is a stand-in for the reader's own.
PLACEHOLDER = re.compile(
    r"(?i)(?:^|[._-])(?:your|my)"
    r"(?:$|[._-]|ip|host|domain|server|site|proxy|company|nas|address)"
    r"|^(?:the[._-]?)?"
    r"(?:local|remote|public|private|external|internal|docker|server|host|container|machine|lan|vpn|nas"
    r"|some|any)?[._-]?"
    r"(?:ip|host|hostname|server|address|ipaddress|ip[._-]address|host[._-]ip|server[._-]ip|serverip|hostip"
    r"|domain|fqdn|dockerhost|servername|container[._-]name)$"
    r"|^url\d*$"
    r"|^x+(?:\.x+)*$"
    r"|(?:^|[._-])(?:xxx+|placeholder|changeme)(?:$|[._-])"
)
#: Last labels that make "name.ext:12" a file and a line. Some are top-level domains too, but in documentation
#: they are mostly files.
EXTENSIONS = word_list(PACKAGE, "file_extensions.txt")
