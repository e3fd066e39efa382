"""The knowledge base for assistants: a server of the Model Context Protocol (extra ``mcp``).

``texts`` bounds what a tool says, ``tools`` are what can be asked and, where it is allowed, changed;
``server`` offers them by stdio or over HTTP on loopback; ``clients`` enters the server in the settings of
assistants. Only ``server`` imports the SDK.
"""
