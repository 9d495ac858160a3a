"""The op table: one row per operator, by family. Importing a family registers its rows."""
