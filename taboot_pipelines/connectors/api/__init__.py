"""What the connectors of sources with an API share.

* ``client``: one request and its answer, within what a run may ask (on :mod:`taboot_pipelines.http`)
* ``tokens``: an OAuth access token, renewed in time
* ``resources``: what an API said as the bytes of a blob, and what makes it another version

The address of an API is the operator's word: it may be private. What its answers link to is not.
"""
