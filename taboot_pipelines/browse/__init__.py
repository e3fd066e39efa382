"""``taboot browse`` and ``taboot serve``: a read-only web application over one knowledge base.

What belongs here: pages and what they need to be drawn. What does not: any finding, which is
``KnowledgeBase``'s, and anything that writes.

- ``guard`` stands before every request: the ``Host`` header, the token, the method, and the headers that keep
  pages from running or loading what is not theirs.
- ``app`` has the routes, turns every ``E_…`` into a page, takes a port of loopback, makes the token, and
  serves until it is interrupted; ``requests`` reads what a URL asks for.
- ``search``, ``documents``, ``graph``, ``map`` and ``overview`` make the pages of their subject; ``digest``
  holds what is counted once for a publication.
- ``api`` has what programs ask below ``/api``, as JSON, ``openapi`` its description, ``problems`` its errors.
- ``rendering`` has the one environment of templates, which escapes all that it is given: nothing here makes
  HTML by itself, and no text is ever marked as safe. ``texts`` cuts texts into pieces that are marked or not;
  what edges say is said by ``retrieval.verbalization``.

Pages work without scripts, but for the map, which Cytoscape.js draws (``static/map.js``; the extra ``map``);
``static/keys.js`` adds the keyboard. Nothing is loaded from elsewhere.
"""

from __future__ import annotations
