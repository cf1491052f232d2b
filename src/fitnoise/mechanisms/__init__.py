"""Ways to turn what is asked into what is measured: one folder a paper."""
