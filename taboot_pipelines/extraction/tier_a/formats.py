"""The formats that are interpreted in sources with ``interpret: true``, in the order in which a file that
looks like two of them is decided.

A new format is a package beside this module with a reader (:class:`~.recognition.FormatReader`) and a line in
:data:`FORMATS`. Compose and nginx files are none of these: they stay with the source types of their own.
"""

from __future__ import annotations

from taboot_pipelines.extraction.tier_a.recognition import Format

FORMATS: tuple[Format, ...] = ()
