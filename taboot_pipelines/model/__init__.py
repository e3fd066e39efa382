"""What is stored and what travels between the packages, without any I/O.

- ``ids``: identifiers, made of content alone; buckets of tables;
- ``records``: the values that connectors, parsers and extractors hand on, in the order of the chain;
- ``offsets``: the map from code points of a document to bytes of its blob;
- ``graph``: the node and relation types with their fields, and the checks that every claim passes;
- ``tables``: the Arrow schema of every table, and the conversion that refuses any other;
- ``jobs``: states of jobs, runs and documents, and the steps between them;
- ``health`` and ``audit``: what a part says of itself, and how two stores differ.

Every other package may import this one; it imports only ``taboot_pipelines.errors``. A type that a single
package uses belongs to that package.
"""
