"""The ledger of slots, their matching to planned nodes, and the windows of reservations."""
