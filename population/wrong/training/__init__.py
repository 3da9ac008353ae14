"""Wrong optimizers and sessions, what training needs beside operations; the registry may enter."""
