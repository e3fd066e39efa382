"""Threads of Reddit (type ``reddit``): of subreddits, users, searches and other listings, or single ones.

A listing says what a thread's post is now and how many comments it has. The comments are read where that
changed, and at the latest after ``recheck_hours``, since an edited or deleted comment shows in no listing.
Threads that fell off their listing are asked for by their ids: what was deleted is absent here too.

``connector`` enumerates threads; ``client`` has the API and what a thread is; ``entry`` the entry.
"""
