"""The knowledge base as a retriever of other libraries: ``langchain`` and ``llama_index``.

Each module needs the extra of its name, and nothing else imports one. What a search finds, and how it is
ranked, is in ``retrieval``.
"""
