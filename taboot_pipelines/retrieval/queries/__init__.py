"""Typed queries over one view: a name and named parameters in, rows with citations out.

``catalog`` lists them; ``run`` checks the arguments, resolves names by ``house``, takes the rows and says
what the answer covers. The rows come from ``services``, ``dependencies``, ``routes`` and ``settings``, which
read the ``service_index`` (services and the edges between them), the ``relations`` (what edges mean together)
and the ``config_files`` (the values of files, with their keys). Nothing here reads the wording of a question:
that is ``answering``, which reads the same parts. A new query is a function of one of these modules and its
entry in ``catalog``.
"""
