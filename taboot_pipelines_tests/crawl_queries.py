"""The example queries of the crawl graph in Neo4j, word for word as people use them."""

LIST_CRAWLS = """
MATCH (r:ROOT)
OPTIONAL MATCH (u:URL {crawl_id: r.crawl_id})
WITH r,
  count(u) AS total,
  sum(CASE WHEN u.job_status = 'COMPLETED' THEN 1 ELSE 0 END) AS completed,
  sum(CASE WHEN u.job_status = 'FAILED' THEN 1 ELSE 0 END) AS failed
RETURN r.crawl_id, r.http_type + r.name AS url, total, completed, failed;
"""
PROGRESS = """
MATCH (r:ROOT {crawl_id: $crawl_id})
OPTIONAL MATCH (u:URL {crawl_id: $crawl_id})
WITH r,
  count(u) AS total,
  sum(CASE WHEN u.job_status = 'COMPLETED' THEN 1 ELSE 0 END) AS completed,
  sum(CASE WHEN u.job_status = 'PENDING' THEN 1 ELSE 0 END) AS pending,
  sum(CASE WHEN u.job_status = 'IN-PROGRESS' THEN 1 ELSE 0 END) AS in_progress,
  sum(CASE WHEN u.job_status = 'FAILED' THEN 1 ELSE 0 END) AS failed
RETURN r.name, total, completed, pending, in_progress, failed;
"""
VISUALIZE = """
MATCH (r:ROOT {crawl_id: $crawl_id})
OPTIONAL MATCH path = (r)-[:Lead*1..5]->(u:URL {crawl_id: $crawl_id})
RETURN r, path;
"""
CLAIM = """
MATCH (n:URL)
WHERE n.current_depth <> n.requested_depth
  AND n.job_status = 'PENDING'
WITH n LIMIT 1
SET n.job_status = 'IN-PROGRESS', n.claimed_at = datetime()
RETURN n;
"""
STATISTICS = """
MATCH (u:URL {crawl_id: $crawl_id})
RETURN
  count(u) AS total_urls,
  count(DISTINCT u.domain) AS unique_domains,
  max(u.current_depth) AS max_depth_reached;
"""
CANCEL = """
MATCH (u:URL {crawl_id: $crawl_id})
WHERE u.job_status IN ['PENDING', 'IN-PROGRESS']
SET u.job_status = 'CANCELLED';
"""
