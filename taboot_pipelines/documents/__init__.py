"""Blob to document: encoding, main content, language, metadata, masked secrets; and document to chunks."""
