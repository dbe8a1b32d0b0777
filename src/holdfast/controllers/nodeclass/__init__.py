"""Node classes: what their selectors find, their fingerprint, and their end. The cloud says what kind they are."""
