"""A UniFi controller, or JSON that was exported from one (type ``unifi``).

Each object is an item: ``sites/SITE/devices/MAC.json``, ``sites/SITE/networks/ID.json`` …, and
``system.json``. The classic interface says more than the integration API, which is asked where a key is not
taken by the other. What changes by itself (counters, loads, clocks) makes no new version of an object.

``connector`` has the entry, the listings and what makes a new version of an object; ``client`` the
controller over HTTP.
"""
