"""Pages of HTML, made of fragments: what is said of plans and releases, for people, in their language."""
