"""From observations to the current truth: what names mean, how claims are reduced, where known names are
mentioned.
"""
