"""Mentions that any text shows by itself: URLs, host:port, IPs, CIDRs and image references.

Each kind has an anchor that the text is searched for at C speed (``://``, ``:`` and digits, dotted digits, a
registry's name …). A candidate is grown from its anchor within fixed bounds and verified by the standard it
follows (WHATWG URL, RFC 1123, RFC 4291 and 5952, OCI), so any text takes linear time. Precision comes first:
what may be a version, a time, a file and line, a port mapping or a placeholder (``<your-ip>:8080``) is left
out.

``urls``, ``images`` and ``addresses`` find one kind each; ``scan`` is the text with what is already taken of
it, and what a host looks like, and ``finding`` the order. Names of services and hosts that some source
declares are not found here: they depend on the namespace, so ``taboot_pipelines.knowledge`` looks for them.
"""

from taboot_pipelines.extraction.tier_a.prose.finding import PROSE_VERSION, find_mentions
from taboot_pipelines.extraction.tier_a.prose.scan import Mention

__all__ = ["PROSE_VERSION", "Mention", "find_mentions"]
