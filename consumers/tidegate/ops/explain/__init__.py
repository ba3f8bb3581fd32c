"""Everything that is known of a table or of an event, in order, and what happens next."""
