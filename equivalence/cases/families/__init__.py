"""What is known of each kind of call, one record a family; those who draw calls enter."""
