"""What a change to files would do, before it is ingested: ``places`` finds the files before and after it,
``states`` makes the graph of each in memory, ``sides`` reads these, ``facts`` and ``problems`` compare them.
Begin with ``checker``, which puts it together; ``written`` says it as Markdown and SARIF.
"""
