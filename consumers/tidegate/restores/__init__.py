"""Restores: plan (dry run), checks (reasons to refuse), run (the steps), executor (outcomes)."""
