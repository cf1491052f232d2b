"""Laws: what every member of a zoo must obey. A new member costs a line in one file of `zoo/`."""
