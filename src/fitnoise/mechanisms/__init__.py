"""Methods that turn requests into designs: one folder a paper."""
