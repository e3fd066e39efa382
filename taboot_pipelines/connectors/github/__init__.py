"""Repositories of GitHub, or of a GitHub Enterprise server (type ``github``).

What is read of a repository, and the paths of its items:

* what it says of itself: ``OWNER/NAME#repository``;
* files of its default branch that the globs take, and what Compose projects among them name:
  ``OWNER/NAME/PATH``, as the files of one root;
* issues and pull requests with all that was said of them, ``OWNER/NAME#issues/12`` and
  ``OWNER/NAME#pulls/13``; releases, ``#releases/TAG``; discussions, ``#discussions/4``; pages of the wiki,
  ``#wiki/PAGE.md``. No name of a repository holds a ``#``, so no file is called so.

``OWNER/NAME`` is what the entry calls a repository: one that was renamed keeps its paths until the entry
names it anew. Of ``organisations`` and ``users`` it is the present name.

``connector`` enumerates repositories and reads recorded answers; ``entry`` has the entry and the service it
names; ``listings`` what GitHub lists, and the rounds of runs that a bound ended; ``threads`` issues, pull
requests, releases and discussions; ``files``, ``git_tree`` and ``wiki`` files; ``resources`` what makes a new
version of a resource.
"""
