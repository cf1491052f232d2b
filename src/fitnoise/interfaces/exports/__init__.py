"""Tables of a release for other programs, written beside it, as functions of it: workbooks, LaTeX, data packages."""
