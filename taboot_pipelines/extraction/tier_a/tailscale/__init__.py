"""Tier A extraction from what Tailscale and Headscale say of a tailnet: inventories, netmaps and policies.

``forms`` recognizes the forms and reads them into records; ``policy`` reads rules, and ``access`` resolves
them (or recorded packet filters) to devices; ``extractor`` turns all of it into claims, by the guide
``benchmarks/gold/inventories.md``.
"""
