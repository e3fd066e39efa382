"""What queries return: pydantic models, of which some are tables (Arrow, pandas), that draw themselves in
notebooks.

One module a subject, so that a question loads the results that it has: ``hits`` (a search), ``inspection``
(how a search came to them), ``graph`` (neighbourhoods and links), ``explanations``, ``answers``. How tables
and pictures are drawn is in ``retrieval.rendering``; what is not for a caller's eyes belongs beside the code
that makes it.
"""
