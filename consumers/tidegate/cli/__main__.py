"""`python -m tidegate.cli`: the same as the `tidegate` command."""

from __future__ import annotations

from tidegate.cli import main

main()
