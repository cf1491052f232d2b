"""The studio: pages on this machine that do what commands do, and show it. It adds no power.

guard ── who may ask ── app ── pages ── folder (spec.toml, its draft, plans by hash)
                                     ── forms (from fields to a document, and back)
                                     ── workers ── planner, a process of its own
                                     ── releasing, a process of its own for each release
"""
