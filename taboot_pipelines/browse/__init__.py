"""``taboot browse``: a small read-only web application over one knowledge base, for one person.

What belongs here: pages and what they need to be drawn. What does not: any finding, which is
``KnowledgeBase``'s, and anything that writes.

- ``server`` takes a port of loopback, makes the token, and serves until it is interrupted.
- ``guard`` stands before every request: the ``Host`` header, the token, the method, and the headers that keep
  pages from running or loading what is not theirs.
- ``app`` has the routes and turns every ``E_…`` into a page; ``requests`` reads what a URL asks for.
- ``searching``, ``documents``, ``graph`` and ``states`` make the pages of their subject; ``digest`` holds
  what is counted once for a publication; ``places`` says in few words where something stands.
- ``rendering`` has the one environment of templates, which escapes all that it is given: nothing here makes
  HTML by itself, and no text is ever marked as safe. ``texts`` cuts texts into pieces that are marked or not,
  ``picture`` lays out a neighbourhood; what edges say is said by ``retrieval.phrases``.

Pages work without scripts; ``static/keys.js`` adds the keyboard. Nothing is loaded from elsewhere.
"""

from __future__ import annotations
