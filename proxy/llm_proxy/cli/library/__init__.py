"""What the commands that look after a library have in common: its rows, and how they are chosen."""
