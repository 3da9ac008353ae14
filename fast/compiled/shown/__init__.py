"""How a compiled program is shown: what is read off a replay, or off the C++ of an artifact."""
