"""A check of the charge of a plan of fitnoise that shares no code with fitnoise: it needs Python and numpy."""
