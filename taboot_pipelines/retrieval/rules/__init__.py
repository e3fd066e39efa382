"""Rules of the house: what of its declarations asks for trouble, each with the places that say so.

``catalog`` is the table of all rules; begin there. ``declarations`` is what they read, ``run`` runs them.
"""
