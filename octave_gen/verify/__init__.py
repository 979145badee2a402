"""Checks variants: their code objects run on an executor and are compared with the reference."""
