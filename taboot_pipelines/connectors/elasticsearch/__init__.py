"""Logs and other hits of Elasticsearch and OpenSearch, and what their cluster consists of (type
``elasticsearch``).

A run reads from where hits may still arrive (``lookback``) to the end. Of what is older it asks only how many
hits each window has, and the sum of their sequence numbers, by one request, and reads again the windows of
which either is not what it knows; ES|QL and SQL cannot be asked so. What is known of a window that is not
read stands; so a run that read everything would hold the same. Only of a server that tells no sums of
``_seq_no`` an old hit that was edited in place stays as it was.

``connector`` says what a run reads; ``entry`` has the entry and the server it names; ``search`` the requests
for hits and for their numbers; ``hits`` hits as items; ``files`` recorded answers and exports.
"""
