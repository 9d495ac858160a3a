"""First stage: what is asked for, and the rows that are written while a program runs."""
