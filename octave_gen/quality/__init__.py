"""The quality bench: what a cache format does to K, V and attention, on samples of a model or on synthetic ones."""
