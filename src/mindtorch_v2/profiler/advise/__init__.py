"""Fifth stage: what a capture says about the program: where its time went, and what could be saved."""
