"""What is published and how people reach it: reports, and the command line."""
