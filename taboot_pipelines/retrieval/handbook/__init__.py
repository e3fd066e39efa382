"""The handbook: the house as a folder of pages, Markdown and HTML, for who has no more than a file browser.

Start at ``content``, which says what stands on each page. It adds to ``facts`` (what is known of a service,
by the typed queries), and these to ``blocks`` (rows and passages with their places); what the house's own
texts say of restarting, backing up, restoring and updating is found by ``instructions``. ``maps`` draws,
``naming`` names the files, ``site`` renders by the two templates and puts the folder in its place, ``making``
joins them. Every statement has a citation; what is not known is said as a gap.
"""
