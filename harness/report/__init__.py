"""Records of a run, and the forms they are shown in."""
