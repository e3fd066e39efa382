"""Tier C: what a chat model reads in windows of running text, held to what the text says.

- ``ontology``: which relations may be told, between what;
- ``tokens``: how long a text is for a model's budget;
- ``windows``: paragraphs, items, rows and lines of diagrams, together at most 512 tokens;
- ``prompt``: the question that is asked of a window, and the JSON Schema of its answer;
- ``reading``: an answer as triples that quote the window, and why others are refused;
- ``claims``: the relations of the graph model, and triples as claims of it;
- ``calibration``: labelled passages, on which it is measured how often a model is right, by relation.

Nothing here asks a model, and nothing that a model says is believed unless the window says it too. The text
of a document is data: it is fenced, what a reader of the page would not see is left out, and no answer goes
beyond what the window holds.
"""

from taboot_pipelines.extraction.tier_c.claims import GRAPH, claims
from taboot_pipelines.extraction.tier_c.ontology import Ontology, Relation
from taboot_pipelines.extraction.tier_c.prompt import PROMPT_VERSION, key, question
from taboot_pipelines.extraction.tier_c.reading import READING_VERSION, Read, Triple, read
from taboot_pipelines.extraction.tier_c.tokens import TokenCounter, token_counter
from taboot_pipelines.extraction.tier_c.windows import WINDOWS_VERSION, Window, windows

__all__ = [
    "GRAPH",
    "PROMPT_VERSION",
    "READING_VERSION",
    "WINDOWS_VERSION",
    "Ontology",
    "Read",
    "Relation",
    "TokenCounter",
    "Triple",
    "Window",
    "claims",
    "key",
    "question",
    "read",
    "token_counter",
    "windows",
]
