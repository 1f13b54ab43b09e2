"""Learning from records that are used once: OCO, online-to-batch and their learners."""
