"""HTML pages that describe plans and releases to people in their language, built from fragments."""
