"""Connectors: an entry of the sources file in, the raw items of that source out.

A module or package per source type, which has its name: the model of the type's entries and its reader. What
joins the two, and says what the documents are, is the type's class in ``taboot_pipelines.sources``. What they
share:

* ``entries``: what every entry has, and field types of entries
* ``access``: all that a connector may use (paths, limits, HTTP, secrets, clock, state, injected readers)
* ``protocol``: what a connector is, and what it can tell of a run before it
* ``walk``, ``globs``: directories and patterns; ``files`` has what readers of directories share besides
* ``api``: the client of sources with an API, its tokens, and the resources it gives

A connector knows neither the catalog nor a stage, and does not interpret what it reads: bytes and what the
origin says of them go out as events (``model.records``), and ``stages.raw_blobs`` stores them. What a
connector needs from a package beside this one, such as the files that a Compose text names, the stage
injects by ``Access``.
"""
