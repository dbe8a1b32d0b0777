"""The history of a cluster's pods as lines of `api.recording`, for `holdfast record`. Pure: events in, lines out."""
