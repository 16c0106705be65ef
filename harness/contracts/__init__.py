"""The contracts shipped with the harness, one module each; importing a module registers its contract."""
