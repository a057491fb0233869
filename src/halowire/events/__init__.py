"""What happened: events as JSON lines, and the ledger of bytes and seconds."""
