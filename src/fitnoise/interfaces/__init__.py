"""Ways to speak: the command line, reports, figures, the demo."""
