"""Models that are asked something: chat models (``chat``) and rerankers (``rerank``).

Each of the two is a part: ``protocol.py``, a module per backend, and the opener in ``__init__``. Embedders
are a part of their own, :mod:`taboot_pipelines.embedding`.

What several backends need stands beside the parts: ``batching`` (slices of the input, several at a time),
``tei`` (the protocol of Text Embeddings Inference) and ``torch_model`` (a transformer in this process).
Servers are asked by :mod:`taboot_pipelines.http`. What is asked, and what is made of the answers, does not
belong here.
"""
