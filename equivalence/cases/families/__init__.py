"""What is known of each kind of call, one record a family; those who draw cases and lives enter."""
