"""Objects in the store: admission, validation, deletion and CustomResourceDefinitions."""
