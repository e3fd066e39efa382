"""Mail (type ``gmail``): the Gmail API, any server by IMAP, or files of mail.

What all three give is one item per message and one for each text that is attached to it, whose path begins
with the message's: ``<message>#<number>-<name>``.

The three are ``api`` with the requests of ``mailbox``, ``imap``, and ``files``; ``entry`` has the entry and
its access token.
"""
