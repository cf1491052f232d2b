"people"
