"""What any text shows by its form: mentions, and the relations that tables, items and arrows state.

Mentions are URLs, host:port, IPs, CIDRs and image references. Each kind has an anchor that the text is
searched for at C speed (``://``, ``:`` and digits, dotted digits, a registry's name …). A candidate is grown
from its anchor within fixed bounds and verified by the standard it follows (WHATWG URL, RFC 1123, RFC 4291,
RFC 5952, OCI), so any text takes linear time. Precision comes first: what may be a version, a time, a file
and line, a port mapping or a placeholder (``<your-ip>:8080``) is left out. ``urls``, ``images`` and
``addresses`` find one kind each; ``scan`` is the text with what is already taken of it, and
``finding`` the order. Names of services and hosts that some source declares are not found here: they depend
on the namespace, so ``taboot_pipelines.knowledge`` looks for them.

Relations are read in steps: ``segments`` cuts Markdown into rows, items, lines of diagrams and sentences;
``things`` finds what is named in each; ``tables``, ``arrows`` and ``pairs`` make candidate relations with
features; ``deciding`` weighs these with the coefficients of ``model.json``, which
``benchmarks/gold/fit_relations.py`` of the project's repository fits; ``reading`` does all of it for a
document, and ``claims`` makes claims of the graph model. Sentences are Tier B's, by the same means.
"""
