"""Drift: what two statements of a snapshot say that cannot both be so.

- ``facts``: the edges that are compared, and where each stands;
- ``declared``: what configuration declares of services: ports, networks, images, names, and what the text of
  a declaration says of a port beside its edges;
- ``route_rules``: configuration against configuration; ``prose_rules``: running text against it;
- ``rules``: the rule of published ports, and all rules over one snapshot.

Drift is derived from the snapshot alone and stored nowhere: the same snapshot gives the same list, whatever
the order in which its documents came (rules ``deterministic-reducer`` and ``incremental-equals-scratch``).
A rule reports only what is certain, since one false report makes a person pass over the true ones; where a
condition cannot be known, nothing is reported.
"""
