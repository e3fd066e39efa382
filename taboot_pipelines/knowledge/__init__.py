"""From what extractors say to the current truth of a namespace.

Interpretation, the same for every tier: :mod:`units` (what is interpreted, and what an extractor offers),
:mod:`document_units` and :mod:`project_units` (the two kinds of unit), :mod:`evidence` (the bytes and the
line of a statement), :mod:`observations` (rows from claims), :mod:`runs` (what the catalog remembers), and
:mod:`interpretation`, which brings a table of observations up to date.

The snapshot: :mod:`changes` (which documents differ), :mod:`names` and :mod:`mentions` (what declared names
mean, and where they stand), :mod:`titles`, :mod:`relations` (a document's edges), :mod:`reducer` (claims to
entities) and :mod:`graph` (the graph that readers see). What people decided: :mod:`assertions` and
:mod:`structured`. What contradicts itself: :mod:`drift`.

No parser of a format lives here (``extraction``), no model, no lease, no pointer and no order of stages
(``stages``): catalog, tables and blobs are given.
"""
