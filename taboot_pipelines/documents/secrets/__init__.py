"""Secret values stop here: before a text is stored they are masked, in documents and in everything quoted.

Three ways lead to a secret, each with its module:

- ``assignments``: a name that announces it (``POSTGRES_PASSWORD=…``), in any of the usual notations;
- ``shapes``: a form that only credentials have (``ghp_…``, a private key), or the place in a URL, header or
  command where credentials stand;
- ``manifests``: the fields of Kubernetes objects that hold secrets.

``names`` and ``values`` judge a name and a value; ``scanner`` reads the text around them; ``finding`` puts
the three ways together; ``pages`` applies them to HTML, through its tags; ``masking`` writes the asterisks.

Every search is linear in the text: patterns have bounded repetition, and what is looked for ahead is looked
for once. The text alone decides what is masked, so equal text is masked equally. The secrets among the
settings are not this package's affair: their values are known, and ``taboot_pipelines.logs`` masks them.
"""

from taboot_pipelines.documents.secrets.masking import MASK_VERSION, find_secrets, mask, mask_value

__all__ = ["MASK_VERSION", "find_secrets", "mask", "mask_value"]
