from __future__ import annotations

from formats.conftest import golden, one_thread

__all__ = ["golden", "one_thread"]
