"""Where a crawl may begin: what sitemaps and feeds list."""
