"""The studio: pages on this machine that run the commands and show their results. It adds no power.

```text
guard (access) ── app ── pages ── folder (spec.toml, its draft, plans by hash)
                               ── forms (from fields to a document, and back)
                               ── workers ── planner, a process of its own
                               ── releasing, a process of its own for each release
```
"""
