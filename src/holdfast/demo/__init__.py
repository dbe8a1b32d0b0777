"""`holdfast demo`: a sandbox and the real controllers in one process, with workloads that scale up and down.

`environment` starts the sandbox and the controllers; `story` scales the workloads; `status` reads the state at one
moment, with the cost from `money`; `view` draws it, with `layout`; `changes` describes the difference of two. Only
`environment` and `story` write to the sandbox. `event_times` changes how clients over HTTP read Events.
"""
