"""What devices did in a capture and who asked for it: one analysis a file, from columns to figures."""
