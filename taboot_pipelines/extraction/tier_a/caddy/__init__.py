"""Caddy: a Caddyfile with what it imports, or the JSON that Caddy runs on, as routes (``docs/formats.md``).

``parsing`` makes directives of a Caddyfile with all that it imports, ``sites`` follows these to what they
pass on, and ``adapted`` does the same in JSON. Both end in ``upstreams``.
"""
