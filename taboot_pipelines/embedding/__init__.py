"""Texts to vectors: the protocol, the bundled MiniLM and the TEI client."""
