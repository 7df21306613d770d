"""Record batches and messages: bytes to columns and back. Knows no file."""
