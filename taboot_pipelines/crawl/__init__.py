"""Crawling: a source's entry in, its pages out, each asked for politely and only where it is safe.

How data flow:

* ``discovery`` finds where to begin: sitemaps, feeds and an index of crawled pages give URLs, each with a
  score of its relevance
* ``urls`` parses a URL once, as the WHATWG standard does, and gives the key that says which pages are one
* before a URL is asked for, ``robots`` says whether its site allows it, ``domains`` what is set for its
  domain, and ``politeness`` when it is the domain's turn
* ``addresses`` says which addresses may be connected to; it is asked where the socket is opened, for every
  hop, and ``proxies`` says by which way
* ``browser`` and ``crawl4ai`` are clients that render a page, with ``rendering`` and ``egress``, the one way
  out of a browser; ``captures`` says what is kept of how a page looks, ``capturing`` takes it
* ``inflate`` undoes compression within bounds

Nothing here knows Dagster, a stage or a source type. What must outlive a run is kept in a state or a store
that the caller hands in.
"""
