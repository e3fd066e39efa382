"""A blob becomes a document, and a document becomes chunks.

The path, a module for each step:

1. ``encoding``: bytes to text, so that the text leads back to every byte;
2. ``mime``: what kind of text it is, by the declared type, the name and the first bytes;
3. ``parse`` (the way in is :func:`~taboot_pipelines.documents.parse.parse_document`): for text formats the
   text itself; for HTML ``html_tree`` (a tree with positions), ``html_content`` (which blocks are the main
   content) and ``html_markdown`` (those blocks as Markdown); with them ``metadata`` (what the document says
   about itself) and ``language``;
4. ``secrets``: every secret value masked by as many asterisks, so that offsets hold;
5. the offset map (``taboot_pipelines.model.offsets``): from code points of the document to bytes of the blob;
6. ``chunking``: the document cut along the structure that ``blocks`` sees, counted by ``tokens``.

Positions are carried through all steps and never searched for afterwards. Everything here is a function of
its input: no clock, no network, no store. Whatever a stranger's bytes provoke becomes a ``TabootError``, and
no message quotes their text.

What a document says about services, hosts and images belongs to ``taboot_pipelines.extraction``; where blobs
come from, to ``taboot_pipelines.connectors``; which documents are due and what is written, to the stages.
"""
