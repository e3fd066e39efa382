"""The handbook: the house as a folder of pages, Markdown and HTML, for who has no more than a file browser.

Start at ``content``, which says what stands on each page, as the blocks of ``pages``: facts of the typed
queries (``retrieval.queries``), and what the house's own texts say of restarting, backing up, restoring and
updating (``instructions``). ``maps`` draws, ``site`` renders by the two templates and puts the folder in its
place, ``making`` joins them. Every statement has a citation; what is not known is said as a gap.
"""
