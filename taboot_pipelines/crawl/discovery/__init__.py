"""Where a crawl may begin: what sitemaps, feeds and an index of crawled pages list, and how relevant it is.

* ``discover``: reads the lists of a site and gives the URLs found, the best first
* ``sitemaps``, ``feeds``: what one list says; bytes in, entries out; ``repair``: lists that are nearly XML
* ``common_crawl``: what an index of the Common Crawl's kind knows of a site
* ``relevance``: how much a URL and its title promise of what somebody looks for

Nothing here opens a connection: whoever asks gives a ``get``, by which politeness and the guard hold. No page
is fetched.
"""
