"""The one HTTP client of APIs and of model servers. (Pages are fetched by :mod:`taboot_pipelines.crawl`.)

* ``client``: one attempt, bounded in time and size, and the policy by which attempts are repeated
* ``connections``: connections whose every operation ends by a deadline
* ``answers``: what an answer is, and what errors may say of it
* ``throttling``: how a service says that it was asked too often, and until when it is to be left alone
* ``server``: a server that the settings name, such as that of a model

What a status means for a source belongs to :mod:`taboot_pipelines.connectors.api`. The circuit breaker is in
:mod:`taboot_pipelines.stores.state.circuit`.
"""
