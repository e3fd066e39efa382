"""What is stored: ids, records, graph nodes and edges, Arrow schemas of every table, job states. No I/O."""
