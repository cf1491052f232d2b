"""Tables of a release for other programs, computed from the release alone: workbooks, LaTeX, data packages."""
