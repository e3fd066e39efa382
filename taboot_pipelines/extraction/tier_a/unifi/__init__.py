"""What a UniFi controller says of a house, from answers of its APIs or from exported JSON.

* ``reading``: which objects a text holds, and objects as records of a site (``records``), each statement
  with its place
* ``extractor``: units from a listing, and the records of a site as nodes and edges

Three interfaces are read: the classic one (``/api/s/SITE/stat/…``, ``rest/…``), version 2 of it
(``/v2/api/site/SITE/…``) and the published integration API of Network 9 and newer.
"""
