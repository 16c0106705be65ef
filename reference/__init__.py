"""Oracles: one function per contract, written from the definition, plus a magnitude for its error budget."""
