"""Profiles: what a built kernel executes, counted in the interpreter, and where an issue model sees its clocks go."""
