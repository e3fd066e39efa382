"""Stores: where things are kept, and the leases that order their writers.

A store keeps what it is given and gives it back unchanged. It knows how its backend stores and fails, what a
namespace may see, and how its rows or keys are laid out; what the rows mean and when they are written belongs
to ``stages`` and to the packages of the domain. A store imports ``model``, ``settings``, ``errors`` and other
stores, nothing else of ours.

**A part** is a thing that settings can put on another backend. It is a package of three kinds of modules:
``protocol.py`` says what the rest of the code relies on, with its value types; each backend has a module of
its name; and the opener ``open_<part>(settings, …)`` in ``__init__`` chooses. Where there is only one
backend, there is no protocol, and the package's page says so. Opening touches no network, a library that only
one backend needs is imported with that backend, and what a backend raises are our own errors, never the
server's words.

**What may be lost, and what not.**

- ``blobs``: the bytes that everything is derived from. Nothing brings them back.
- ``catalog``: what came in, what is alive, which version of each table holds. Nothing brings it back.
- ``tables``: the rows that stages publish. Derived: the chain makes them again, at the cost of its work.
- ``vectors`` and ``graph``: copies of the newest snapshot on servers. Derived: the next run makes them equal.
- ``state``: caches, queues, rate limits, locks, circuit breakers. May be lost at any time; what must not
  vanish of them is in the catalog, and a queue is rebuilt from it.
- ``replays``: which passages the last answers were chosen from, by id. Derived from questions, which nothing
  brings back; made for being shown again, and dropped by an erasure.
- ``leases``: who may write now. They end with their holder, on purpose.

``objects`` (object stores by URL), ``postgres`` (its address, connections and failures) and ``disk`` (what a
local disk refuses) are what several stores share.
"""
