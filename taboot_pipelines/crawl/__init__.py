"""Crawling: a source's entry in, its pages out, each asked for politely and only where it is safe.

How data flow:

* ``discovery`` finds where to begin: sitemaps, feeds and an index of crawled pages give URLs, each with a
  score of its relevance
* ``crawler`` is the loop: it claims URLs of the ``frontier``, which a store keeps, and has them fetched
  unless ``freshness`` says that their last answer still holds; ``outcomes`` says what each answer means, and
  repeats what an earlier run, or another process, has settled; ``following`` reads the ``links`` of the page
  and takes those that are ``targets``, and both go back under checkpoints
* ``urls`` parses a URL once, as the WHATWG standard does, and gives the key that says which pages are one
* before a URL is asked for, ``robots`` says whether its site allows it,
  ``domains`` what is set for its domain, and ``politeness`` when it is the domain's turn
* ``fetching`` brings a page from its first hop to its last answer, any number at once in one thread, with
  the headers that belong to each
* ``client`` says what one hop is, and ``curl`` makes it, with ``authorities``, over HTTP/1.1 and HTTP/2;
  ``inflate`` undoes compression within bounds
* ``browser`` and ``crawl4ai`` are clients that render a page, with ``rendering`` and ``egress``, the one way
  out of a browser, which goes on by a tunnel where there is a proxy; ``nss`` tells it of ``authorities``;
  ``captures`` takes what is kept of how a page looks
* ``addresses`` says which addresses may be connected to; it is asked for every name that is looked up,
  and it is asked again where the socket is opened, for every hop; ``proxies`` says by which way

Nothing here knows Dagster, a stage or a source type. What must outlive a run is kept in a state or a store
that the caller hands in.
"""
