"""What a change to files would do, before it is ingested: ``states`` makes the graph of the files as they were
and as they are, in memory; ``places`` finds both; ``facts`` and ``problems`` compare the two; ``checker`` puts
it together, and ``written`` says it in the formats that reviewers and machines read.
"""
