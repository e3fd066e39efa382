"""What of a house's statements cannot both be so: ``declared_values`` of configuration, ``stated_values`` of
documents beside them, and the ``report`` of all that is found, the rules of ``knowledge.drift`` among it."""
