"""Access to tables: confined to the warehouse roots, with checks before any change."""
