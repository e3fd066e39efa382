"""What engines and machines say that runs (the source type ``runtime``): ``containers`` reads their dumps,
``extractor`` states them in the graph. Compared with what is declared in ``knowledge.drift.running``."""
