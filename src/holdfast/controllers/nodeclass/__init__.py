"""Node classes: status, hash, termination and garbage collection. The Cloud port defines their kind."""
