"""What a service may do to a table: inside the warehouse roots, checked before any change."""
