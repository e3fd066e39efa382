"""Tier A: what a format states, read by a parser; equal input and version give byte-identical claims.

- ``compose``: Docker Compose projects, with the Dockerfiles and environment files they name;
- ``nginx``: nginx configuration, SWAG's proxy confs included;
- ``elasticsearch``: what a cluster says of its nodes;
- ``prose``: mentions that any text shows by itself, such as URLs, addresses and image references;
- ``tailscale``: inventories, netmaps and policies of Tailscale and Headscale.

Every format is a reader of what its grammar says. What it says becomes claims in one place: ``claims``
decides that each node and edge is claimed once, follows the model, and why its ends are called as they are;
``proxying`` does so for the routes of any reverse proxy. ``texts`` are the files that a unit reads, with
their problems. They share the normal forms of what they name: ``endpoints`` (hosts, ports and URLs),
``images`` (image references), ``inventory`` (names and addresses of devices); ``regions``, which parts of a
Markdown text are code; and ``yaml_nodes``, YAML whose values know where they stand, and templates of it. A
new format is a package beside these with an extractor that has a ``name``, a ``version`` (part of the
fingerprint: raise it when equal input would give other claims), ``units`` and ``interpret``.

Formats of configuration files in any source with ``interpret: true`` have readers (``recognition``), which
``formats`` lists; ``config_files`` finds out which format a file has.

Nothing here guesses: what depends on a value that the files do not give is marked as unresolved.
"""
