"""Models that are asked something: chat models (``chat``) and rerankers (``rerank``).

Each of the two is a part: ``protocol.py``, a module per backend, and the opener in ``__init__``. Embedders
are a part of their own, :mod:`taboot_pipelines.embedding`.

What several backends need stands beside the parts: ``http`` (requests to one server: bounded, tried again,
behind a circuit breaker), ``tei`` (the protocol of Text Embeddings Inference) and ``torch_model`` (a
transformer in this process). What is asked, and what is made of the answers, does not belong here.
"""
