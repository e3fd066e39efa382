"""From text to claims: which nodes and edges a unit of interpretation states, and where in its files.

A package for each tier:

- ``tier_a``: parsers of the formats themselves and of what any text shows by itself; deterministic.

An extractor names its units from a listing of paths (``units``) and interprets one (``interpret``) through a
:class:`~taboot_pipelines.model.records.FileView`, which remembers what was read and what was looked for. It
returns claims with the code points that state them, and problems for what could not be read; it stores
nothing, and knows nothing of other units.

What is made of claims (runs, observations, which of them count, mentions of names declared elsewhere) belongs
to ``taboot_pipelines.knowledge``.
"""
